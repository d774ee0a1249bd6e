package site

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// endTimeout is how long Chromium may take to end.
const endTimeout = 10 * time.Second

// browser is a page of a headless Chromium, which is asked by the DevTools protocol. One goroutine uses it.
type browser struct {
	conn    *websocket.Conn
	session string
	sent    int
	asked   []string // The addresses that pages have asked for.
}

// message is what Chromium sends: an answer, or an event with its method.
type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// startBrowser starts a Chromium that resolves no name of a host, and ends with the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v; type: test/setup.sh chromium", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--remote-debugging-port=0", "--user-data-dir="+t.TempDir(), "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "about:blank")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &browser{}
	t.Cleanup(func() {
		timer := time.AfterFunc(endTimeout, stop)
		defer timer.Stop()
		b.close()
		_ = cmd.Wait() // Chromium ended, or was killed.
		stop()
	})
	address, err := devTools(stderr)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }() // Until Chromium ends.
	conn, response, err := websocket.DefaultDialer.DialContext(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close() // It is empty.
	b.conn = conn
	if err := b.open(); err != nil {
		t.Fatal(err)
	}
	return b
}

// close asks Chromium to end, with all of its processes: those would write to its folder while the test removes that.
func (b *browser) close() {
	if b.conn == nil {
		return
	}
	b.session = ""                        // The command is for the whole browser.
	_ = b.call("Browser.close", nil, nil) // The connection may end before the answer.
	_ = b.conn.Close()
}

// devTools returns the address that Chromium prints when it has started.
func devTools(stderr io.Reader) (string, error) {
	lines := bufio.NewScanner(stderr)
	var all []string
	for lines.Scan() {
		if _, address, found := strings.Cut(lines.Text(), "DevTools listening on "); found {
			return address, nil
		}
		all = append(all, lines.Text())
	}
	return "", fmt.Errorf("chromium ended: %s", strings.Join(all, "\n"))
}

// open makes an empty page, and has Chromium report what pages load.
func (b *browser) open() error {
	var target struct {
		TargetID string `json:"targetId"`
	}
	if err := b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	attach := map[string]any{"targetId": target.TargetID, "flatten": true}
	if err := b.call("Target.attachToTarget", attach, &attached); err != nil {
		return err
	}
	b.session = attached.SessionID
	return errors.Join(b.call("Page.enable", nil, nil), b.call("Network.enable", nil, nil))
}

// call sends a command and decodes its result.
func (b *browser) call(method string, params map[string]any, into any) error {
	b.sent++
	command := map[string]any{"id": b.sent, "method": method, "params": params}
	if params == nil {
		command["params"] = map[string]any{}
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	if err := b.conn.WriteJSON(command); err != nil {
		return err
	}
	answer, err := b.until(func(m message) bool { return m.ID == b.sent })
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("%s: %s", method, answer.Error.Message)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer.Result, into)
}

// until reads messages up to a wanted one.
func (b *browser) until(wanted func(message) bool) (message, error) {
	for {
		var m message
		if err := b.conn.ReadJSON(&m); err != nil {
			return m, err
		}
		if err := b.note(m); err != nil || wanted(m) {
			return m, err
		}
	}
}

// note remembers the address of a request.
func (b *browser) note(m message) error {
	if m.Method != "Network.requestWillBeSent" {
		return nil
	}
	var event struct {
		Request struct {
			URL string `json:"url"`
		} `json:"request"`
	}
	err := json.Unmarshal(m.Params, &event)
	b.asked = append(b.asked, event.Request.URL)
	return err
}

// resize gives the page the width of a screen.
func (b *browser) resize(width int) error {
	return b.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false,
	}, nil)
}

// visit opens an address, and returns when everything is loaded.
func (b *browser) visit(address string) error {
	var navigated struct {
		ErrorText string `json:"errorText"`
	}
	if err := b.call("Page.navigate", map[string]any{"url": address}, &navigated); err != nil {
		return err
	}
	if navigated.ErrorText != "" {
		return fmt.Errorf("open %s: %s", address, navigated.ErrorText)
	}
	var ready bool
	return b.eval(loaded, &ready)
}

// loaded waits until the page and its pictures are there.
const loaded = `new Promise(done => document.readyState === "complete" ? done(true) :
	addEventListener("load", () => done(true)))`

// eval runs a script in the page, waits for what it promises, and decodes that.
func (b *browser) eval(script string, into any) error {
	var evaluated struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		ExceptionDetails json.RawMessage `json:"exceptionDetails"`
	}
	params := map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}
	if err := b.call("Runtime.evaluate", params, &evaluated); err != nil {
		return err
	}
	if evaluated.ExceptionDetails != nil {
		return fmt.Errorf("the script failed: %s", evaluated.ExceptionDetails)
	}
	return json.Unmarshal(evaluated.Result.Value, into)
}
