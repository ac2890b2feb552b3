package cli

import (
	"math/bits"
	"time"
)

// latencies is a histogram of durations in nanoseconds, with buckets that grow
// with the value: 128 of the same width for each power of two. A value is known to
// 1 part in 128, in the space of 35 KB, however many there are.
//
//	value     0 … 127   128 … 255   256 … 511   512 … 1023   …
//	width     1         1           2           4
//	buckets   128       128         128         128
//
// Values beyond the last bucket, 18 minutes, are counted in it.
type latencies struct {
	buckets [powers * perPower]uint64
	count   uint64
	max     time.Duration // exact
}

const (
	perPower = 1 << 7
	powers   = 34
)

func (l *latencies) add(d time.Duration) {
	d = max(d, 0)
	l.buckets[bucket(uint64(d))]++
	l.count++
	l.max = max(l.max, d)
}

func (l *latencies) merge(other *latencies) {
	for i, n := range other.buckets {
		l.buckets[i] += n
	}
	l.count += other.count
	l.max = max(l.max, other.max)
}

// quantile gives the value that a share q of the durations does not exceed,
// rounded up to the end of its bucket so that nothing looks faster than it was.
func (l *latencies) quantile(q float64) time.Duration {
	if l.count == 0 {
		return 0
	}
	rank := min(uint64(q*float64(l.count))+1, l.count)
	seen := uint64(0)
	for i, n := range l.buckets {
		if seen += n; seen >= rank && i < len(l.buckets)-1 {
			return min(bucketEnd(i), l.max)
		}
	}
	return l.max
}

func bucket(v uint64) int {
	if v < perPower {
		return int(v)
	}
	shift := bits.Len64(v) - bits.Len64(perPower) // halvings until v is below 2·perPower
	i := shift*perPower + int(v>>shift)
	return min(i, powers*perPower-1)
}

// bucketEnd gives the largest value of a bucket.
func bucketEnd(i int) time.Duration {
	if i < 2*perPower {
		return time.Duration(i)
	}
	shift := i/perPower - 1
	return time.Duration((uint64(i-shift*perPower)+1)<<shift - 1)
}
