package progress

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"golang.org/x/sys/unix"
)

// screen is a terminal that notes what is written to it, and when.
type screen struct {
	b       strings.Builder
	started time.Time
}

func (s *screen) Write(text []byte) (int, error) {
	fmt.Fprintf(&s.b, "%v %q\n", time.Since(s.started), text)
	return len(text), nil
}

// TestLine reads testdata/line: for how long something takes on a terminal of some width,
// what there is to show from when on, and what is written above.
func TestLine(t *testing.T) {
	datadriven.RunTest(t, "testdata/line", func(t *testing.T, d *datadriven.TestData) (out string) {
		var takes string
		width := 80
		d.ScanArgs(t, "takes", &takes)
		d.MaybeScanArgs(t, "width", &width)
		total, err := time.ParseDuration(takes)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			at := &screen{started: time.Now()}
			var parts atomic.Pointer[[]string]
			line := (&Terminal{To: at, Width: func() int { return width }}).Start(func(elapsed time.Duration) []string {
				p := parts.Load()
				if p == nil {
					return nil
				}
				return append([]string{(*p)[0], Time(elapsed)}, (*p)[1:]...)
			})
			for step := range strings.Lines(d.Input) {
				words := strings.SplitN(strings.TrimSpace(step), " ", 3)
				when, err := time.ParseDuration(words[0])
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(when - time.Since(at.started))
				switch words[1] {
				case "show":
					p := strings.Split(words[2], ", ")
					parts.Store(&p)
				case "print":
					io.WriteString(line.Above(at), words[2]+"\n")
				}
			}
			time.Sleep(total - time.Since(at.started))
			line.Stop()
			line.Stop()
			fmt.Fprintf(&at.b, "%v end\n", time.Since(at.started))
			out = at.b.String()
		})
		return out
	})
}

// Without a terminal nothing is done.
func TestNoTerminal(t *testing.T) {
	var none *Terminal
	line := none.Start(func(time.Duration) []string { t.Error("asked"); return nil })
	if line.Above(os.Stdout) != os.Stdout {
		t.Error("writes are not those of the file itself")
	}
	line.Stop()
}

// Of knows a terminal, and its width, from a file that is none.
func TestOf(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer tty.Close()
	at := Of(tty, "xterm")
	if at == nil || Of(tty, "dumb") != nil {
		t.Fatal("not known")
	}
	if w := at.Width(); w != usual {
		t.Errorf("%d columns, though it does not tell", w)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: 132}); err != nil || at.Width() != 132 {
		t.Errorf("%d columns, %v", at.Width(), err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if Of(null, "xterm") != nil {
		t.Error("/dev/null is taken for a terminal")
	}
}
