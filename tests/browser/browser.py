"""Browser: a headless Chromium for tests of pages, driven over a pair of pipes.

It speaks the DevTools protocol with Python's standard library alone: no port is opened, so tests
can run side by side, and Chromium ends when this process does. Page.errors and Page.requests
collect the page's complaints and its requests to the network. Not for the web: there is no sandbox.
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import urllib.parse

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Roots of containers have no sandbox, and often a /dev/shm of 64 MB.
FLAGS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
         "--mute-audio", "--no-first-run", "--no-default-browser-check", "--disable-extensions",
         "--hide-scrollbars", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--force-color-profile=srgb", "--remote-debugging-pipe")


class BrowserError(Exception):
    """Chromium is absent, ended, did not answer in time, or a script on a page threw."""


class Browser:
    """A Chromium process with a profile of its own. Use it in a `with`, which ends the process."""

    def __init__(self, timeout=60):
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None:
            raise BrowserError("no Chromium on this machine; install it (Debian: chromium)")
        self.timeout = timeout
        self.pages = {}
        self._next, self._answers, self._buffer = 0, {}, b""
        self._profile = tempfile.mkdtemp(prefix="browser-")
        self._log = open(os.path.join(self._profile, "stderr"), "w+b")
        theirs, self._write, self._read, theirs_out = *_pipe(), *_pipe()
        # Chromium reads commands at descriptor 3 and writes answers at 4.
        self._process = subprocess.Popen(
            ["bash", "-c", 'exec "${@:3}" 3<&"$1" 4>&"$2"', "bash", str(theirs), str(theirs_out),
             program, *FLAGS, "--user-data-dir=" + self._profile, "about:blank"],
            pass_fds=(theirs, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self._log)
        os.close(theirs)
        os.close(theirs_out)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the process that this object started, and removes its profile."""
        try:
            self.call("Browser.close", timeout=10)
        except BrowserError:
            pass
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self._profile, ignore_errors=True)

    def page(self, width=1400, height=900, dark=False, touch=False):
        """A new, empty page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(domain + ".enable")
        page.emulate(width, height, dark, touch)
        return page

    def call(self, method, session=None, timeout=None, **params):
        """Sends a command and returns its result. Events that come meanwhile go to their pages."""
        self._next += 1
        number = self._next
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        try:
            os.write(self._write, json.dumps(message).encode() + b"\0")
        except OSError:
            self._ended(method)
        self.wait_for(lambda: number in self._answers, method, timeout)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserError("%s: %s" % (method, answer["error"]["message"]))
        return answer["result"]

    def wait_for(self, condition, what, timeout=None):
        """Reads what Chromium writes until `condition()` holds."""
        end = time.monotonic() + (timeout or self.timeout)
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                raise BrowserError("%s: Chromium did not answer in time" % what)
            if select.select([self._read], [], [], left)[0]:
                self._take(what)

    def _take(self, what):
        data = os.read(self._read, 1 << 20)
        if not data:
            self._ended(what)
        *messages, self._buffer = (self._buffer + data).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            elif message.get("sessionId") in self.pages:
                self.pages[message["sessionId"]].event(message["method"], message["params"])

    def _ended(self, what):
        self._log.seek(0)
        text = self._log.read().decode(errors="replace")[-2000:]
        raise BrowserError("%s: Chromium ended; its last words:\n%s" % (what, text))


class Page:
    """A tab. `errors` and `requests` hold what happened since the last navigate()."""

    def __init__(self, browser, session, target):
        self.browser, self.session, self.target = browser, session, target
        self.errors, self.console, self.requests, self.loads = [], [], [], 0

    def call(self, method, timeout=None, **params):
        return self.browser.call(method, self.session, timeout, **params)

    def emulate(self, width, height=900, dark=False, touch=False):
        """A window of this size; `dark`: the user prefers dark pages; `touch`: a phone's screen."""
        self.dark = dark
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def navigate(self, address, timeout=None):
        """Opens a file or an address, and returns the seconds until it is loaded."""
        if "://" not in address:
            path, mark, link = address.partition("#")
            address = "file://" + urllib.parse.quote(os.path.abspath(path)) + mark + link
        self.errors, self.console, self.requests = [], [], []
        loads, start = self.loads, time.monotonic()
        answer = self.call("Page.navigate", timeout, url=address)
        if answer.get("errorText"):
            raise BrowserError("%s: %s" % (address, answer["errorText"]))
        if answer.get("loaderId"):  # none: another place of the same page
            self.browser.wait_for(lambda: self.loads > loads, address, timeout)
        return time.monotonic() - start

    def evaluate(self, script, timeout=None):
        """The value of an expression on the page, as JSON carries it; promises are awaited."""
        answer = self.call("Runtime.evaluate", timeout, expression=script, awaitPromise=True,
                           returnByValue=True, userGesture=True)
        if "exceptionDetails" in answer:
            raise BrowserError("the script threw: " + _thrown(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait_until(self, script, timeout=None):
        """Waits until an expression is true on the page."""
        end = time.monotonic() + (timeout or self.browser.timeout)
        while not self.evaluate(script):
            if time.monotonic() > end:
                raise BrowserError("this never became true on the page: " + script)
            time.sleep(0.02)

    def screenshot(self, path, full=False):
        """Writes what is seen, or with `full` the whole page, to a PNG file."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full,
                         **({"clip": self._whole()} if full else {}))["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def _whole(self):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}

    def mouse(self, kind, x, y, buttons=0):
        """One event of the mouse: kind is mousePressed, mouseMoved or mouseReleased."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, clickCount=1, buttons=buttons,
                  button="left" if buttons or kind != "mouseMoved" else "none")

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, buttons=1)
        self.mouse("mouseReleased", x, y)

    def key(self, name):
        """Presses a key by its name, like ArrowRight."""
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36,
                 "End": 35, "Escape": 27, "Enter": 13, "Tab": 9, " ": 32}
        code = codes.get(name, ord(name[0].upper()))
        text = {"text": name} if len(name) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode=code, **text)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
        del self.browser.pages[self.session]

    def event(self, method, params):
        if method == "Page.loadEventFired":
            self.loads += 1
        elif method == "Runtime.exceptionThrown":
            self.errors.append(_thrown(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            text = " ".join(str(x.get("value", x.get("description", ""))) for x in params["args"])
            self.console.append(text)
            if params["type"] in ("error", "assert"):
                self.errors.append(text)
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            address = params["request"]["url"]
            if not address.startswith(("file:", "data:", "blob:")):
                self.requests.append(address)


def _pipe():
    """A pipe whose ends are not among the first descriptors, which Chromium gets others for."""
    return tuple(_moved(end) for end in os.pipe())


def _moved(descriptor):
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(descriptor)
    return moved


def _thrown(details):
    return details.get("exception", {}).get("description") or details.get("text", "an error")
