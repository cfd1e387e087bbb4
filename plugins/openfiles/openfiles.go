package openfiles

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// listing shows the open files of this process.
const listing = "/proc/self/fd"

// Usage is how many files are open, and how many may be.
type Usage struct{ Open, Limit int }

// Read counts the open files. It opens none itself where the kernel tells the
// number (Linux 6.2).
func Read() (Usage, error) {
	limit, err := Limit()
	if err != nil {
		return Usage{}, err
	}
	open, err := count()
	return Usage{Open: open, Limit: limit}, err
}

// Limit is how many files this process may have open. The Go runtime raised the
// soft limit to the hard one when the program started.
func Limit() (int, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	return int(min(r.Cur, 1<<30)), nil
}

func count() (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(listing, &st); err == nil && st.Size > 0 {
		return int(st.Size), nil
	}
	return list()
}

// list counts what is open one by one.
func list() (int, error) {
	f, err := os.Open(listing)
	if err != nil {
		return 0, fmt.Errorf("count the open files: %w", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return 0, fmt.Errorf("count the open files: %w", err)
	}
	return len(names) - 1, nil // without the listing itself
}

// Near reports whether 80 % of what may be open is open.
func (u Usage) Near() bool { return u.Limit > 0 && 5*u.Open >= 4*u.Limit }

// Reserve is how many files stay free for all but namespaces: for those who ask, for
// the store, for what is written to disk.
func (u Usage) Reserve() int { return min(u.Limit/8, 1024) }

// Slack is how many more files fit in without touching the reserve.
func (u Usage) Slack() int { return u.Limit - u.Reserve() - u.Open }

// String is what people are told: "812 of 1024 open files".
func (u Usage) String() string { return fmt.Sprintf("%d of %d open files", u.Open, u.Limit) }

// ErrLimit is in every error that [Explain] has explained.
var ErrLimit = errors.New("limit of open files")

// limitError says which limit is reached and who raises it.
type limitError struct {
	text string
	err  error
}

func (e *limitError) Error() string   { return e.text }
func (e *limitError) Unwrap() []error { return []error{ErrLimit, e.err} }

// Refuse is the error of who does not open what would use up the reserve.
func (u Usage) Refuse() error {
	return &limitError{err: unix.EMFILE, text: fmt.Sprintf(
		"the limit of open files (%d) is reached: %d are open, and %d are kept free for other work; raise LimitNOFILE of plumb-agent",
		u.Limit, u.Open, u.Reserve())}
}

// Explain names the limit in an error of the system that says that one is reached;
// other errors stay as they are.
func Explain(err error) error {
	switch {
	case err == nil || errors.Is(err, ErrLimit):
		return err
	case errors.Is(err, unix.EMFILE):
		limit, _ := Limit()
		return &limitError{err: err, text: fmt.Sprintf(
			"the limit of open files (%d) is reached; raise LimitNOFILE of plumb-agent: %v", limit, err)}
	case errors.Is(err, unix.ENFILE):
		return &limitError{err: err, text: fmt.Sprintf(
			"the limit of open files of this system (%s) is reached; raise it with sysctl: %v", setting("fs/file-max"), err)}
	}
	return err
}

// ExplainInotify does the same for the error of inotify_init, which is the same number
// when this user has too many instances of inotify, see inotify_init(2).
func ExplainInotify(err error) error {
	if u, failed := Read(); failed != nil || u.Open >= u.Limit || !errors.Is(err, unix.EMFILE) {
		return Explain(err)
	}
	return &limitError{err: err, text: fmt.Sprintf(
		"the limit of inotify instances of this user (%s), by all programs together, is reached; raise it with sysctl: %v",
		setting("fs/inotify/max_user_instances"), err)}
}

// setting is a setting of the kernel with its value, as sysctl names it.
func setting(place string) string {
	text, _ := os.ReadFile("/proc/sys/" + place)
	return strings.ReplaceAll(place, "/", ".") + " = " + strings.TrimSpace(string(text))
}
