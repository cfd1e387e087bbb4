package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/pidfd"
	"github.com/plumb-net/plumb/plugins/private"
)

// StartProxy makes what listens and the process; see the port.
func (p *Proxies) StartProxy(ctx context.Context, spec kernel.Proxy, record func(kernel.ProxyProcess) error) (made kernel.ProxyProcess, err error) {
	var files []*os.File
	defer func() { closeAll(files) }()
	if err := p.makeDirs(spec.Listen); err != nil {
		return made, err
	}
	var l *os.File
	err = p.apart(spec.Listen.NS, 1, func() (err error) { l, made.File, err = listen(spec); return err })
	if err != nil {
		return kernel.ProxyProcess{}, err
	}
	files = append(files, l)
	made.Mark, made.Control = spec.Mark, p.controlOf(spec.Mark)
	started := false
	defer func() {
		if err != nil && !started {
			err = errors.Join(err, p.removeFiles(made))
		}
	}()
	c, err := listenControl(made.Control)
	if err != nil {
		return made, fmt.Errorf("make the socket by which the process is asked: %w", err)
	}
	files = append(files, c)
	read, write, err := os.Pipe()
	if err != nil {
		return made, err
	}
	defer write.Close()
	files = append(files, read)
	holders, err := openHolders(spec)
	files = append(files, holders...)
	if err != nil {
		return made, err
	}
	if err := p.born(ctx, spec, &made, files, len(holders)); err != nil {
		return made, err
	}
	h, err := p.follow(made, true)
	if err != nil {
		return made, fmt.Errorf("the process ended at once: %w", err)
	}
	started = true
	if err = p.begin(ctx, spec, made, write, record); err != nil {
		_ = write.Close() // without an order it ends by itself
		return made, errors.Join(err, p.end(ctx, h), p.removeFiles(made))
	}
	return made, nil
}

// begin records a process, gives it its order, and waits until it serves.
func (p *Proxies) begin(ctx context.Context, spec kernel.Proxy, made kernel.ProxyProcess, write *os.File, record func(kernel.ProxyProcess) error) error {
	if err := record(made); err != nil {
		return err
	}
	text, err := json.Marshal(order{Mark: spec.Mark, From: spec.Listen.Protocol, To: spec.Forward.Protocol, File: made.File, Rules: spec.Rules})
	if err != nil {
		return err
	}
	if _, err := write.Write(text); err != nil {
		return fmt.Errorf("the process ended before it was told what to do: %w", err)
	}
	if err := write.Close(); err != nil {
		return err
	}
	_, err = ask(ctx, made, request{})
	return err
}

// makeDirs makes the directories of ours that a proxy needs.
func (p *Proxies) makeDirs(listen kernel.ProxyEnd) error {
	if err := private.Make(p.opts.Dir); err != nil {
		return err
	}
	if dir := p.opts.FilesDir; dir != "" && filepath.Dir(listen.Address) == dir {
		switch err := os.Mkdir(dir, 0o755); {
		case err == nil: // who may connect is decided by the sockets in it, whatever the umask
			return os.Chmod(dir, 0o755)
		case !errors.Is(err, os.ErrExist):
			return err
		}
	}
	return nil
}

func listenControl(path string) (*os.File, error) {
	var f *os.File
	err := at(path, func(short string) error {
		if err := os.Remove(short); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		if err != nil {
			return err
		}
		defer l.Close()
		l.SetUnlinkOnClose(false)
		f, err = l.File()
		return err
	})
	return f, err
}

// processPath is the namespace file of a process.
var processPath = regexp.MustCompile(`^/proc/(\d+)/ns/net$`)

// openHolders opens the processes to whom the namespaces belong, if they belong to some.
func openHolders(spec kernel.Proxy) (files []*os.File, err error) {
	for _, end := range []kernel.ProxyEnd{spec.Listen, spec.Forward} {
		m := processPath.FindStringSubmatch(end.Path)
		if m == nil || end.NS == 0 {
			continue
		}
		pid, _ := strconv.Atoi(m[1])
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ENOSYS) {
			continue // the agent ends the process
		}
		if err != nil {
			return files, fmt.Errorf("process %d: %w", pid, gone(err))
		}
		files = append(files, os.NewFile(uintptr(fd), "holder"))
		// Once it is held: else the number may be another's by now.
		var st unix.Stat_t
		if err := unix.Stat(end.Path, &st); err != nil || kernel.NS(st.Ino) != end.NS {
			return files, fmt.Errorf("process %d: %w", pid, kernel.ErrNoNamespace)
		}
	}
	return files, nil
}

func gone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return kernel.ErrNoNamespace
	}
	return err
}

// born starts the process in the namespace to which it forwards.
func (p *Proxies) born(_ context.Context, spec kernel.Proxy, made *kernel.ProxyProcess, files []*os.File, holders int) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	given := append([]*os.File{null, null, null}, files...)
	args := []string{os.Args[0], command, spec.Mark, made.Control, strconv.Itoa(holders)}
	return p.apart(spec.Forward.NS, 0, func() error {
		if err := renounce(spec.Forward.Protocol == "unix"); err != nil {
			return fmt.Errorf("renounce capabilities: %w", err)
		}
		// The file that runs, also when an upgrade has put another in its place.
		child, err := os.StartProcess("/proc/self/exe", args, &os.ProcAttr{
			Dir: "/", Files: given, Env: []string{}, Sys: &syscall.SysProcAttr{Setsid: true}})
		if err != nil {
			return fmt.Errorf("start the process: %w", err)
		}
		made.PID = child.Pid
		_ = child.Release() // its end is heard by the pidfd
		made.Start, err = pidfd.StartTime(made.PID)
		return err
	})
}

// renounce gives up for this thread, and what it starts, all capabilities for the time
// after the next program begins: root has then no more rights than who owns root's files.
// Sockets of daemons may belong to others.
func renounce(files bool) error {
	for c := uintptr(0); c <= 63; c++ {
		if files && c == unix.CAP_DAC_OVERRIDE {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			if errors.Is(err, unix.EINVAL) {
				break // the kernel has no more of them
			}
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&head, &have[0]); err != nil {
		return err
	}
	have[0].Inheritable, have[1].Inheritable = 0, 0
	if err := unix.Capset(&head, &have[0]); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// apart runs work on a thread of the namespace that ends afterwards: what work does to it
// is for nobody else. With namespace 0 the thread is in none in particular.
func (p *Proxies) apart(ns kernel.NS, writes int, work func() error) error {
	dir := -1
	if ns != 0 {
		err := p.namespaces.Within(ns, writes, func() (err error) {
			dir, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			return err
		})
		if err != nil {
			return err
		}
		defer unix.Close(dir)
	}
	result := make(chan error, 1)
	go onThread(dir, work, result)
	return <-result
}

// onThread keeps its thread, so that it ends with the goroutine; but never the main thread,
// which stays and by which others know this process.
func onThread(ns int, work func() error, result chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		defer runtime.UnlockOSThread()
		inner := make(chan error, 1)
		go onThread(ns, work, inner)
		result <- <-inner
		return
	}
	if ns >= 0 {
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("enter namespace: %w", err)
			return
		}
	}
	result <- work()
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// stopTime is how long the end of a process that was killed is waited for.
const stopTime = 5 * time.Second

// end kills a process and waits until it has gone.
func (p *Proxies) end(ctx context.Context, h *held) error {
	p.mu.Lock()
	h.told = true
	p.mu.Unlock()
	if err := h.process.Kill(); err != nil {
		return fmt.Errorf("kill process %d: %w", h.PID, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	select {
	case <-h.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("process %d was killed and has not ended within %s", h.PID, stopTime)
	}
}
