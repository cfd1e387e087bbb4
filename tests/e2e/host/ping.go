package host

import (
	"bufio"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Ping pings an address from a network namespace ten times a second; see [PingEvery].
func Ping(t testing.TB, namespace, to string) (unharmed func()) {
	t.Helper()
	return PingEvery(t, "0.1", namespace, to)
}

// PingEvery pings an address from a network namespace in intervals of seconds. What it returns ends
// that, and fails the test if an answer was lost: it waits for one more answer, and all
// before it must be there. A ping that is on its way when ping itself is interrupted
// counts as lost in its summary, so that is not asked.
func PingEvery(t testing.TB, seconds, namespace, to string) (unharmed func()) {
	t.Helper()
	cmd := exec.Command("nsenter", "--net="+namespace, "--", "busybox", "ping", "-i", seconds, to)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100_000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	end := func() {
		_ = cmd.Process.Kill()
		for range lines { // until ping has ended
		}
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	return func() {
		t.Helper()
		defer end()
		asked, next, late := len(lines), 0, time.After(10*time.Second)
		for read := 1; ; read++ {
			select {
			case l, ok := <-lines:
				seq, answer := answered(l)
				switch {
				case !ok:
					t.Fatal("ping ended by itself")
				case answer && seq != next:
					t.Fatalf("of the pings to %s number %d has no answer: %s", to, next, l)
				case answer && read > asked:
					return
				case answer:
					next++
				}
			case <-late:
				t.Fatalf("%s answered %d pings and no more", to, next)
			}
		}
	}
}

// answered is the number of the ping that a line of busybox ping tells the answer to.
func answered(line string) (seq int, is bool) {
	_, rest, is := strings.Cut(line, " seq=")
	if !is {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, " ")
	seq, err := strconv.Atoi(number)
	return seq, err == nil
}
