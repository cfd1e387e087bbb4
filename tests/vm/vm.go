package vm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Machine is what a run has.
type Machine struct {
	Kernel Kernel
	// Files are files and directories by their path in the machine, with their path here.
	Files map[string]string
	// Programs are found on this machine, and brought with the libraries that they load.
	Programs []string
	// Commands run one after the other, also when one fails.
	Commands []Command
}

// Command is what runs in the machine, as root.
type Command struct {
	Args []string
	// Dir is where it runs; "" is the root.
	Dir string
	// Env are variables beside HOME, PATH and TMPDIR, as NAME=value.
	Env []string
}

// Result is what came of a command.
type Result struct {
	Output string
	// Code is its exit code; -1 of one that did not end by itself.
	Code int
}

// memory is that of the machine, for its files and its programs.
const memory = "2048"

// Run boots the machine, runs its commands and switches it off. Results are those of the
// commands that ended; with fewer than there are commands the error says why.
func (m Machine) Run(ctx context.Context) (results []Result, err error) {
	dir, err := os.MkdirTemp("", "vm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	archive, answers := filepath.Join(dir, "files"), filepath.Join(dir, "answers")
	if err := m.pack(ctx, archive); err != nil {
		return nil, fmt.Errorf("pack the files of the machine: %w", err)
	}
	// One processor is faster than two where both are emulated. The emulator gets the flags
	// of cmpxchg16b wrong now and then, by which Linux 6.12 falls. It keeps what it has
	// translated by address: where programs lie at random it does a third of its work anew.
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg", "-cpu", "qemu64,-cx16", "-smp", "1",
		"-m", memory, "-no-reboot", "-nodefaults", "-display", "none",
		"-device", "vmxnet3,romfile=", // a network card, which is not connected
		"-kernel", m.Kernel.image, "-initrd", archive, "-append", "console=ttyS0 quiet panic=-1 norandmaps",
		"-chardev", "stdio,id=console", "-serial", "chardev:console",
		"-chardev", "file,id=answers,path="+answers, "-serial", "chardev:answers")
	var console bytes.Buffer
	qemu.Stdout, qemu.Stderr = &console, &console
	failed := qemu.Run()
	text, err := os.ReadFile(answers)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	results = parse(text)
	if len(results) < len(m.Commands) {
		unfinished := text[bytes.LastIndex(text, []byte(EndMark))+1:]
		return results, errors.Join(failed, ctx.Err(), fmt.Errorf("the machine ended within command %d of %d\nconsole:\n%s\nlast output:\n%s",
			len(results)+1, len(m.Commands), console.String(), unfinished))
	}
	return results, nil
}

// EndMark begins the line by which the first process of a machine ends the output of a
// command; its exit code follows.
const EndMark = "\x01end "

func parse(text []byte) (results []Result) {
	var output strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		// A command may end without the end of a line.
		before, code, ended := strings.Cut(lines.Text(), EndMark)
		output.WriteString(before)
		if !ended {
			output.WriteByte('\n')
			continue
		}
		n, err := strconv.Atoi(code)
		if err != nil {
			n = -1
		}
		results = append(results, Result{Output: output.String(), Code: n})
		output.Reset()
	}
	return results
}
