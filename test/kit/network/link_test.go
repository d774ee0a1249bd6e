package network_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// soon is how long something may take that takes milliseconds when nothing else runs on the machine.
const soon = 20 * time.Second

// moment is how long nothing must arrive to be held for lost.
const moment = 100 * time.Millisecond

// echo is a server that sends back what it is sent, until the client has no more to send.
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) // Without pipes of the kernel, which stay.
			}()
		}
	}()
	return listener.Addr().String()
}

// client is one that sends lines and hears them again.
type client struct {
	*testing.T
	net.Conn
	reader *bufio.Reader
}

func dial(t *testing.T, l *network.Link) *client {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Address())
	expect.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{T: t, Conn: conn, reader: bufio.NewReader(conn)}
}

func (c *client) say(line string) {
	c.Helper()
	if _, err := io.WriteString(c.Conn, line+"\n"); err != nil {
		c.Fatal(err)
	}
}

func (c *client) hear(within time.Duration) (string, error) {
	c.Helper()
	expect.NoError(c, c.SetReadDeadline(time.Now().Add(within)))
	line, err := c.reader.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

func (c *client) wantEcho(want string) {
	c.Helper()
	if got, err := c.hear(soon); got != want || err != nil {
		c.Fatalf("heard %q, %v, want %q", got, err, want)
	}
}

func (c *client) wantSilence() {
	c.Helper()
	if got, err := c.hear(moment); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.Fatalf("heard %q, %v, want nothing at all", got, err)
	}
}

func TestACutLinkResetsAndRefusesUntilItIsHealed(t *testing.T) {
	t.Parallel()
	l := network.New(t, echo(t))
	c := dial(t, l)
	c.say("one")
	c.wantEcho("one")
	expect.NoError(t, l.Cut())
	if got, err := c.hear(soon); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("heard %q, %v over a link that was cut, want a reset", got, err)
	}
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Address()); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("dialling a link that is cut = %v, %v, want a refusal", conn, err)
	}
	expect.Eventually(t, soon, func() error {
		if got := l.Open(); got != 0 {
			return fmt.Errorf("%d connections are open, want none", got)
		}
		return nil
	})
	expect.NoError(t, l.Heal())
	c = dial(t, l)
	c.say("two")
	c.wantEcho("two")
	if got := l.Accepted(); got != 2 {
		t.Errorf("%d connections, want 2", got)
	}
}

func TestAFrozenLinkIsABlackHoleUntilItIsHealed(t *testing.T) {
	t.Parallel()
	l := network.New(t, echo(t))
	old := dial(t, l)
	old.say("one")
	old.wantEcho("one")
	l.Freeze()
	old.say("two")
	young := dial(t, l)
	young.say("three")
	old.wantSilence()
	young.wantSilence()
	expect.NoError(t, l.Heal())
	old.wantEcho("two")
	young.wantEcho("three")
}

func TestASlowLinkDelaysEitherWay(t *testing.T) {
	t.Parallel()
	l := network.New(t, echo(t))
	c := dial(t, l)
	c.say("one")
	c.wantEcho("one")
	l.Slow(moment)
	began := time.Now()
	c.say("two")
	c.wantEcho("two")
	if took := time.Since(began); took < 2*moment {
		t.Errorf("there and back took %s, want at least %s", took, 2*moment)
	}
}

// TestLose: what is open stays silent after one end has given up, too, and new connections pass.
func TestLose(t *testing.T) {
	t.Parallel()
	l := network.New(t, echo(t))
	old := dial(t, l)
	old.say("before")
	old.wantEcho("before")
	l.Lose()
	old.say("lost")
	if got, err := old.hear(moment); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %q, %v over a connection that is lost", got, err)
	}
	late := dial(t, l)
	late.say("after")
	late.wantEcho("after")
	expect.NoError(t, l.Heal())
	if got, err := old.hear(moment); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %q, %v over a connection that is lost, after the link was healed", got, err)
	}
}
