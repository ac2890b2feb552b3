"""Holds a leasehold lease: the rules of docs/OTHER_LANGUAGES.md in plain Python 3."""
import http.client, json, threading, time, urllib.error, urllib.request, uuid


class Lost(Exception):
    """The lease is not ours: refused, or lost."""


def call(servers, path, body, until, wait_until=0):
    """Sends body to one server after another until one has answered for the cluster."""
    while (now := time.monotonic()) < until:
        servers.append(servers.pop(0))  # another one each time
        url = servers[-1] + path
        if wait_until:
            body["wait_ms"] = max(0, int((wait_until - now) * 1000))
        for _ in range(2):  # the server, and the leader that it names
            limit = min(until - now, body.get("wait_ms", 0) / 1000 + 3)
            try:
                request = urllib.request.Request(url, json.dumps(body).encode())
                with urllib.request.urlopen(request, timeout=limit) as answer:
                    return 200, json.load(answer)
            except urllib.error.HTTPError as e:
                if e.code == 307:
                    url = e.headers["Location"]
                    continue
                if e.code not in (503, 504):
                    return e.code, json.load(e)
            except (OSError, http.client.HTTPException, ValueError):
                pass  # no whole answer: it may have happened, so the same is sent again
            break
        time.sleep(0.1)
    raise TimeoutError(path)


class Lease:
    def __init__(self, servers, name, ttl=10.0, wait=0.0, holder=None):
        self.servers, self.name, self.ttl = list(servers), name, ttl
        self.holder = holder or f"python-{uuid.uuid4().hex[:12]}"
        body = {"name": name, "holder": self.holder, "ttl_ms": int(ttl * 1000), "request_id": uuid.uuid4().hex}
        sent = time.monotonic()
        status, grant = call(self.servers, "/v1/acquire", body, sent + wait + 10, sent + wait if wait else 0)
        if status != 200:
            raise Lost(grant["detail"])
        self.token, self.cluster_id = grant["token"], grant["cluster_id"]
        self.until = sent + 0.95 * ttl  # counts from before sending, and leaves a margin
        if wait or grant["replayed"]:  # since when does the TTL run? A renewal tells.
            self.until = time.monotonic() + ttl
            self.renew()
        self.stopped = threading.Event()
        threading.Thread(target=self.keep, daemon=True).start()

    def held(self):
        """Ask right before each step of the work. Only the token protects what comes after."""
        return time.monotonic() < self.until

    def renew(self):
        sent = time.monotonic()
        try:
            status, answer = call(self.servers, "/v1/renew", self.grant(), min(self.until, sent + self.ttl / 3))
        except TimeoutError:
            return  # not renewed, not lost: there is time for another try
        if status != 200:
            self.until = 0
            raise Lost(answer["detail"])
        self.until = sent + 0.95 * self.ttl

    def keep(self):
        while self.held() and not self.stopped.wait(self.ttl / 3):
            try:
                self.renew()
            except Lost:
                return

    def release(self):
        """Only when the work has ended."""
        self.stopped.set()
        self.until = 0
        call(self.servers, "/v1/release", self.grant(), time.monotonic() + 5)

    def grant(self):
        return {"name": self.name, "holder": self.holder, "token": self.token}
