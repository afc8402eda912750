"""Drives a kshare over its control interface. The standard library is all it needs; copy it.

    with running("bin/kshare", "--topic", "orders:1", "--clock", "virtual") as kshare:
        kshare.bootstrap            # for a client's bootstrap.servers
        kshare.advance("31s")       # a lock of 30 s has ended

docs/control.md describes the interface, GET /openapi.json every field of it.
"""

import contextlib
import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request


class Refused(Exception):
    """What the control interface has refused, with its HTTP status."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Control:
    """The control interface of a running kshare at host:port."""

    def __init__(self, address, bootstrap=None):
        self.url = f"http://{address}"
        self.bootstrap = bootstrap

    def request(self, method, path, body=None, **query):
        """Makes a request and returns its answer, None where it has no body."""
        url = self.url + path
        if query:
            url += "?" + urllib.parse.urlencode(query)
        data = None if body is None else json.dumps(body).encode()
        r = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(r) as answer:
                text = answer.read()
        except urllib.error.HTTPError as e:
            raise Refused(e.code, json.load(e)["error"]) from None
        return json.loads(text) if text else None

    def get(self, path, **query):
        return self.request("GET", path, **query)

    def post(self, path, **body):
        return self.request("POST", path, body)

    def reset(self):
        """Empties the cluster; topics asked for at its start exist again."""
        self.post("/v1/reset")

    def advance(self, by):
        """Lets time pass on a virtual clock: "31s", "1.5s"."""
        return self.post("/v1/time/advance", by=by)

    def share_partition(self, group, topic, partition=0):
        """The records of a share partition that are in flight, and what is persisted."""
        return self.get("/v1/share-partition", group=group, topic=topic, partition=partition)

    def add_fault(self, text):
        """Has requests go wrong, as in "api=Produce topic=orders times=1 error=NOT_LEADER_OR_FOLLOWER". Returns the fault's id."""
        return self.post("/v1/faults", text=text)["id"]

    def fault(self, id):
        """A fault and how often it has matched and acted."""
        return next(f for f in self.get("/v1/faults")["faults"] if f["id"] == id)

    def remove_faults(self):
        self.request("DELETE", "/v1/faults")

    def run(self, text):
        """Runs a scenario and returns what it has shown, line by line. It fails where the text says that it shows something else."""
        report = self.post("/v1/scenarios", text=text)
        if report["stopped"]:
            raise AssertionError("line {line}: {reason}".format(**report["stopped"]))
        for block in report["blocks"]:
            shown = [line for command in block["commands"] for line in command["shown"]]
            if block["differs"]:
                raise AssertionError(f"line {block['commands'][0]['line']}: expected {block['expected']}, shown {shown}")
        return [line for block in report["blocks"] for command in block["commands"] for line in command["shown"]]


@contextlib.contextmanager
def running(binary, *args):
    """Starts a kshare on free ports of the loopback interface, and stops it in the end."""
    command = [binary, "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            ready, http = process.stdout.readline().split(), process.stdout.readline().split()
            if ready[:1] != ["READY"] or http[:1] != ["HTTP"]:
                raise RuntimeError(f"kshare did not start: it printed {ready} and {http}")
            yield Control(http[1], ready[1])
        finally:
            process.terminate()
