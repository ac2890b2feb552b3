package torture

import (
	"fmt"
	"html/template"
	"strings"
	"time"
)

// Measures of all pictures, in pixels of a picture that is scaled to the page.
const (
	pictureWidth = 1120.0
	labelWidth   = 118.0
	axisHeight   = 24.0
)

// canvas is a picture with time from left to right. Its colours are classes, which the
// page gives a meaning, for light and for dark.
type canvas struct {
	from, to time.Duration
	body     strings.Builder
	height   float64
	elements int
}

func newCanvas(from, to time.Duration) *canvas {
	return &canvas{from: from, to: max(to, from+time.Millisecond)}
}

// x is where a time is.
func (c *canvas) x(t time.Duration) float64 {
	t = min(max(t, c.from), c.to)
	return labelWidth + (pictureWidth-labelWidth-8)*float64(t-c.from)/float64(c.to-c.from)
}

// bar is a time span, at least as wide as can be seen. The title shows when it is
// pointed at.
func (c *canvas) bar(class string, from, to time.Duration, y, height float64, title string) {
	if to < c.from || from > c.to {
		return
	}
	const least = 1.5
	x := c.x(from)
	c.box(class, x, y, max(c.x(to)-x, least), height, title)
}

func (c *canvas) box(class string, x, y, width, height float64, title string) {
	c.elements++
	fmt.Fprintf(&c.body, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f">`, class, x, y, width, height)
	if title != "" {
		fmt.Fprintf(&c.body, "<title>%s</title>", template.HTMLEscapeString(title))
	}
	c.body.WriteString("</rect>\n")
}

// text ends at x if it is to the end, else it begins there.
func (c *canvas) text(class string, x, y float64, toEnd bool, text string) {
	anchor := "start"
	if toEnd {
		anchor = "end"
	}
	c.elements++
	fmt.Fprintf(&c.body, `<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, template.HTMLEscapeString(text))
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	c.elements++
	fmt.Fprintf(&c.body, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

// lane begins a row with a label, and is where it begins.
func (c *canvas) lane(label string, height float64) (y float64) {
	y = c.height
	c.text("label", labelWidth-8, y+height/2+4, true, label)
	c.line("grid", labelWidth, y+height, pictureWidth-8, y+height)
	c.height += height
	return y
}

// gap leaves some room.
func (c *canvas) gap(height float64) { c.height += height }

// axis ends the picture with times.
func (c *canvas) axis() {
	steps := []time.Duration{
		time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
		10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, time.Hour,
	}
	step := steps[len(steps)-1]
	for i := len(steps) - 1; i >= 0 && (c.to-c.from)/steps[i] <= 12; i-- {
		step = steps[i]
	}
	for t := (c.from + step - 1) / step * step; t <= c.to; t += step {
		c.line("grid", c.x(t), 0, c.x(t), c.height+4)
		if c.x(t) < pictureWidth-50 { // else there is no room
			c.text("tick", c.x(t)+3, c.height+16, false, seconds(t))
		}
	}
	c.height += axisHeight
}

// seconds says a time of the run as briefly as is exact to the millisecond.
func seconds(t time.Duration) string {
	text := fmt.Sprintf("%.3f", t.Seconds())
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + " s"
}

// svg is the whole picture.
func (c *canvas) svg(about string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+"\n%s</svg>",
		pictureWidth, c.height, template.HTMLEscapeString(about), c.body.String()))
}
