package main

import (
	"cmp"
	"fmt"
	"html"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/plugins/private"
)

// desktopUser returns the ID of the user who started this program and whose browser shows the page:
// the one who called sudo, or who logged in, if this program runs as root.
func (c *cli) desktopUser() (uid int, err error) {
	if os.Geteuid() != 0 {
		return os.Geteuid(), nil
	}
	if text := c.getenv("SUDO_UID"); text != "" {
		uid, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return 0, fmt.Errorf("SUDO_UID: %q is not the ID of a user; unset it", text)
		}
		return int(uid), nil
	}
	if uid, err := private.LoginUID(os.Getpid()); err == nil {
		return uid, nil
	}
	return 0, nil
}

// browse starts the browser of a user who has a desktop here; other users open the address
// themselves. All users of the host can read the arguments of a process, so the browser is given a
// file that only its user can read, and which leads to the address. The returned function removes it.
func (c *cli) browse(uid int, url string) (closed func()) {
	closed = func() {}
	opener, err := exec.LookPath("xdg-open")
	if err != nil || strings.TrimSpace(c.getenv("DISPLAY")+c.getenv("WAYLAND_DISPLAY")) == "" {
		return closed
	}
	file, err := c.leadingTo(url, uid)
	if err != nil {
		c.tell("no browser is started: %v", err)
		return closed
	}
	closed = func() { os.Remove(file) }
	cmd := exec.Command(opener, "file://"+file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it cannot type into this terminal
	if err := c.runAs(cmd, uid); err != nil {
		c.tell("no browser is started: %v", err)
		return closed
	}
	if err := cmd.Start(); err != nil {
		c.tell("no browser is started: %v", err)
		return closed
	}
	go func() { _ = cmd.Wait() }()
	return closed
}

// leadingTo makes a file of a user, for him alone, that leads a browser to an address. Root makes it
// where nobody else can rename files.
func (c *cli) leadingTo(url string, uid int) (string, error) {
	dir := cmp.Or(c.getenv("XDG_RUNTIME_DIR"), os.TempDir())
	if os.Geteuid() == 0 {
		dir = "/run"
	}
	f, err := os.CreateTemp(dir, "plumb-ui-*.html") // mode 0600
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "<!doctype html>\n<meta name=\"referrer\" content=\"no-referrer\">\n<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n<title>Plumb</title>\n", html.EscapeString(url))
	if err == nil && uid != os.Geteuid() {
		err = f.Chown(uid, -1)
	}
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// runAs has a command run as a user, whose browser does not have to be trusted with the rights of
// root.
func (c *cli) runAs(cmd *exec.Cmd, uid int) error {
	if uid == os.Geteuid() {
		return nil
	}
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return fmt.Errorf("user %s: group %q: %w", u.Username, u.Gid, err)
	}
	names, err := u.GroupIds()
	if err != nil {
		return fmt.Errorf("groups of user %s: %w", u.Username, err)
	}
	credential := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	for _, name := range names {
		if g, err := strconv.ParseUint(name, 10, 32); err == nil {
			credential.Groups = append(credential.Groups, uint32(g))
		}
	}
	cmd.SysProcAttr.Credential = credential
	cmd.Dir = "/"
	own := map[string]string{"HOME": u.HomeDir, "USER": u.Username, "LOGNAME": u.Username, "XDG_RUNTIME_DIR": filepath.Join("/run/user", u.Uid)}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		_, is := own[name]
		return is || strings.HasPrefix(name, "SUDO_")
	})
	for name, value := range own {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return nil
}
