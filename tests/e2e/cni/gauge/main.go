// Command gauge stands between a container runtime and a CNI plugin. It runs the
// plugin and, at the very moment when an ADD returns, pings the gateway from inside of
// the container; how long both took goes to a file. So what is measured is the plugin
// and not the runtime, and that the network is there when the plugin says so.
//
// The configuration has, under "gauge", the file and the plugins by a name; a pod is
// served by the one whose name its own begins with: web-1 by web.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	code, err := run()
	if err != nil {
		fmt.Printf(`{"cniVersion":"0.4.0","code":999,"msg":%q}`, err.Error())
		code = 1
	}
	os.Exit(code)
}

// record is one line of the file. Times are in nanoseconds.
type record struct {
	Plugin, Pod, Command string
	Address              netip.Prefix
	Call, Ping           time.Duration
	Error                string `json:",omitempty"`
}

type config struct {
	Gauge struct {
		File    string
		Plugins map[string]map[string]json.RawMessage
	} `json:"gauge"`
}

func run() (int, error) {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 0, err
	}
	command := os.Getenv("CNI_COMMAND")
	if command == "VERSION" {
		fmt.Print(`{"cniVersion":"0.4.0","supportedVersions":["0.4.0"]}`)
		return 0, nil
	}
	var c config
	all := map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(input, &c), json.Unmarshal(input, &all)); err != nil {
		return 0, err
	}
	r := record{Command: command, Pod: argument("K8S_POD_NAME")}
	r.Plugin, _, _ = strings.Cut(r.Pod, "-")
	delete(all, "gauge")
	maps.Copy(all, c.Gauge.Plugins[r.Plugin])
	var plugin string
	if err := json.Unmarshal(all["type"], &plugin); err != nil {
		return 0, fmt.Errorf("there is no plugin for pod %q: %w", r.Pod, err)
	}
	if input, err = json.Marshal(all); err != nil {
		return 0, err
	}
	began := time.Now()
	output, code, err := call(plugin, input)
	if err != nil {
		return 0, err
	}
	r.Call = time.Since(began)
	if code != 0 {
		r.Error = string(output)
	} else if command == "ADD" {
		began = time.Now()
		if r.Address, err = pingGateway(output); err != nil {
			r.Error = err.Error()
		}
		r.Ping = time.Since(began)
	}
	if _, err := os.Stdout.Write(output); err != nil {
		return 0, err
	}
	return code, note(c.Gauge.File, r)
}

// argument is one of the CNI_ARGS.
func argument(name string) string {
	for pair := range strings.SplitSeq(os.Getenv("CNI_ARGS"), ";") {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			return v
		}
	}
	return ""
}

// call runs the plugin as the runtime would.
func call(plugin string, input []byte) (output []byte, code int, err error) {
	for _, dir := range filepath.SplitList(os.Getenv("CNI_PATH")) {
		path := filepath.Join(dir, plugin)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		cmd := exec.Command(path)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
		// It ends when the runtime ends it, as if this program were not there.
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		output, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return nil, 0, err
		}
		return output, cmd.ProcessState.ExitCode(), nil
	}
	return nil, 0, fmt.Errorf("there is no plugin %s in CNI_PATH", plugin)
}

// pingGateway pings the gateway that a result names, once, and returns the address.
func pingGateway(output []byte) (netip.Prefix, error) {
	var result struct {
		IPs []struct {
			Address netip.Prefix
			Gateway netip.Addr
		} `json:"ips"`
	}
	if err := json.Unmarshal(output, &result); err != nil {
		return netip.Prefix{}, err
	}
	if len(result.IPs) == 0 || !result.IPs[0].Gateway.IsValid() {
		return netip.Prefix{}, errors.New("the result has no gateway")
	}
	return result.IPs[0].Address, ping(os.Getenv("CNI_NETNS"), result.IPs[0].Gateway)
}

func note(file string, r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
