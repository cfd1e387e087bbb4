package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/hashicorp/go-multierror"
	"go.yaml.in/yaml/v3"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/fleet/record"
	"github.com/plumb-net/plumb/plugins/kubernetes/mirror"
	"github.com/plumb-net/plumb/plugins/loglevel"
	"github.com/plumb-net/plumb/plugins/trace"
)

// Config is what operators can set. Fields are named by flag in [Settings];
// the same names serve in the YAML file, and in the environment as
// PLUMB_<FLAG>. The order of strength is flag, environment, file, default.
type Config struct {
	Label    string
	Labels   []string
	RunDir   string
	StateDir string
	History  string
	Events   string
	// Resources is how often containers that are not idle are sampled, or off.
	Resources string
	// ResourcesDepth is down to which depth the machine's other cgroups are sampled.
	ResourcesDepth string
	LogLevel       string
	// LogFormat is text or json.
	LogFormat string
	OTLP      string

	Etcd             []string
	EtcdCA           string
	EtcdCert         string
	EtcdKey          string
	EtcdUser         string
	EtcdPasswordFile string

	Listen   string
	TLSCert  string
	TLSKey   string
	ClientCA string
	Tokens   string

	Intent string
	// Kubeconfig is a file, or in-cluster.
	Kubeconfig     string
	KubernetesNode string
	// KubernetesNetworkStatus is on if the agent writes the annotation network-status of pods.
	KubernetesNetworkStatus string
	Policy                  []string
	Shadow                  string

	Docker            string
	Containerd        string
	CRI               string
	MicroserviceEnv   string
	MicroserviceLabel string
	LabelConflict     string
	LabelCarrier      []string
	Netns             string
	NetnsDir          string
}

// Setting is one thing that can be set.
type Setting struct {
	Name  string // of the flag and the YAML key
	Usage string
	text  func(*Config) *string
	list  func(*Config) *[]string
	// Switch: without a value it is on.
	Switch bool
}

// Settings are all that can be set, in the order of help texts.
func Settings() []Setting {
	text := func(name string, f func(*Config) *string, usage string) Setting {
		return Setting{Name: name, Usage: usage, text: f}
	}
	return []Setting{
		text("label", func(c *Config) *string { return &c.Label }, "identity of this agent (default: MICROSERVICE_LABEL, else the host name)"),
		{Name: "labels", Usage: "labels of this agent, each name=value, separated by commas, by which \"agentctl fleet\" chooses agents",
			list: func(c *Config) *[]string { return &c.Labels }},
		text("run-dir", func(c *Config) *string { return &c.RunDir }, "directory of agent.sock, etcd.sock and cni.sock"),
		text("state-dir", func(c *Config) *string { return &c.StateDir }, "directory of the embedded etcd's data, the ledgers and the history"),
		text("history", func(c *Config) *string { return &c.History }, "MiB of history kept in the state directory, 0 for none"),
		text("events", func(c *Config) *string { return &c.Events }, "MiB of events of containers kept in the state directory, 0 for none"),
		text("resources", func(c *Config) *string { return &c.Resources }, "how often it is read what a container uses that is not idle, from 1s to 1m, or off"),
		text("resources-depth", func(c *Config) *string { return &c.ResourcesDepth }, "down to which depth it is read what the machine's other cgroups use, from 0 to 8; with 0 it is the machine alone"),
		text("log-level", func(c *Config) *string { return &c.LogLevel }, "debug, info, warn or error; levels of single parts may follow, as in info,etcd=debug (see \"agentctl log list\")"),
		text("log-format", func(c *Config) *string { return &c.LogFormat }, "text, or json with an object in each line"),
		text("otlp", func(c *Config) *string { return &c.OTLP }, "URL of a collector of OpenTelemetry, to which traces of transactions are sent by gRPC, such as http://127.0.0.1:4317 (default: none)"),
		{Name: "etcd", Usage: "endpoints of an external etcd, separated by commas (default: the embedded one)",
			list: func(c *Config) *[]string { return &c.Etcd }},
		text("etcd-ca", func(c *Config) *string { return &c.EtcdCA }, "file with the CA that signed etcd's certificate"),
		text("etcd-cert", func(c *Config) *string { return &c.EtcdCert }, "file with our certificate for etcd"),
		text("etcd-key", func(c *Config) *string { return &c.EtcdKey }, "file with the key of our certificate"),
		text("etcd-user", func(c *Config) *string { return &c.EtcdUser }, "user for etcd"),
		text("etcd-password-file", func(c *Config) *string { return &c.EtcdPasswordFile }, "file with the user's password"),
		text("listen", func(c *Config) *string { return &c.Listen }, "address and port at which the API is served over the network, to those whom client-ca or tokens know (default: none)"),
		text("tls-cert", func(c *Config) *string { return &c.TLSCert }, "file with the agent's certificate for listen"),
		text("tls-key", func(c *Config) *string { return &c.TLSKey }, "file with the key of that certificate"),
		text("client-ca", func(c *Config) *string { return &c.ClientCA }, "file with the CA that signs certificates of clients, whose organization is plumb:viewer, plumb:operator or plumb:admin"),
		text("tokens", func(c *Config) *string { return &c.Tokens }, "file with digests of tokens, made by \"agentctl token create\""),
		text("intent", func(c *Config) *string { return &c.Intent }, "directory of intent files, watched"),
		text("kubeconfig", func(c *Config) *string { return &c.Kubeconfig }, "file that says how the API server of Kubernetes is reached, or in-cluster for the service account of the agent's pod; pods then want values by annotations (default: none)"),
		text("kubernetes-node", func(c *Config) *string { return &c.KubernetesNode }, "name of this node at the API server (default: the host name, in lower case)"),
		{Name: "kubernetes-network-status", Usage: "on: write the annotation k8s.v1.cni.cncf.io/network-status of pods; leave it off if Multus writes it", Switch: true,
			text: func(c *Config) *string { return &c.KubernetesNetworkStatus }},
		{Name: "policy", Usage: "how keys are treated, each \"PATTERN drift=repair|alert|ignore hold-down=TIME audit=TIME deletions=N|N%|off disruptions=N/min|off pause=REASON\", and how far values in etcd reach into the host, \"PATTERN path=GLOB|… pid=isolated|any|none existing=LINK|… key=GLOB|… sysctl=KEY|… hook=TYPE:HOOK|… proxy=SIDE:PROTOCOL:ADDRESS|…\"; separated by commas",
			list: func(c *Config) *[]string { return &c.Policy }},
		{Name: "shadow", Usage: "on: watch, compute and report what would be done, and do nothing to the network", Switch: true,
			text: func(c *Config) *string { return &c.Shadow }},
		text("docker", func(c *Config) *string { return &c.Docker }, "URL of the Docker engine, or off (default: found by itself)"),
		text("containerd", func(c *Config) *string { return &c.Containerd }, "path of containerd's socket, or off (default: found by itself)"),
		text("cri", func(c *Config) *string { return &c.CRI }, "path of the socket of another engine with CRI, or off (default: CRI-O is found by itself)"),
		text("microservice-env", func(c *Config) *string { return &c.MicroserviceEnv }, "environment variable with a container's service label, or off; it goes before the container label"),
		text("microservice-label", func(c *Config) *string { return &c.MicroserviceLabel }, "container label with a container's service label, or off"),
		text("label-conflict", func(c *Config) *string { return &c.LabelConflict }, "who has a service label that several containers bear: newest, the last that started, or incumbent, the first one for as long as it runs"),
		{Name: "label-carrier", Usage: "who may carry service labels, each \"LABEL runtime=NAME namespace=NAME name=NAME image=IMAGE\" with * for any text, separated by commas; a label that none names goes to all",
			list: func(c *Config) *[]string { return &c.LabelCarrier }},
		text("netns", func(c *Config) *string { return &c.Netns }, "file of the namespace to manage as the agent's own (default: the one it runs in)"),
		text("netns-dir", func(c *Config) *string { return &c.NetnsDir }, "directory of named namespaces"),
	}
}

// Default is the configuration when nothing is set.
func Default() Config {
	return Config{
		RunDir: "/run/plumb", StateDir: "/var/lib/plumb", History: "8", Events: "8", Resources: "10s", ResourcesDepth: "2", LogLevel: "info", LogFormat: "text",
		MicroserviceEnv: "MICROSERVICE_LABEL", MicroserviceLabel: "plumb.microservice", LabelConflict: newest,
		NetnsDir: "/run/netns", Shadow: off, KubernetesNetworkStatus: off,
	}
}

// Get returns the setting's value as flags take it.
func (s Setting) Get(c *Config) string {
	if s.list != nil {
		return strings.Join(*s.list(c), ",")
	}
	return *s.text(c)
}

// Set sets it from a text.
func (s Setting) Set(c *Config, v string) {
	if s.text != nil {
		*s.text(c) = v
		return
	}
	*s.list(c) = nil
	for e := range strings.SplitSeq(v, ",") {
		if e = strings.TrimSpace(e); e != "" {
			*s.list(c) = append(*s.list(c), e)
		}
	}
}

// Env is the name of the setting's environment variable.
func (s Setting) Env() string {
	return "PLUMB_" + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Load makes the configuration: file ("" for none), environment, and what the
// flags set, by name.
func Load(file string, lookupEnv func(string) (string, bool), flags map[string]string) (Config, error) {
	c := Default()
	if file != "" {
		if err := c.readFile(file); err != nil {
			return c, err
		}
	}
	for _, s := range Settings() {
		if v, ok := lookupEnv(s.Env()); ok {
			s.Set(&c, v)
		}
		if v, ok := flags[s.Name]; ok {
			s.Set(&c, v)
		}
	}
	if c.Label == "" {
		c.Label, _ = lookupEnv("MICROSERVICE_LABEL")
	}
	if c.Label == "" {
		c.Label, _ = os.Hostname()
	}
	if c.Kubeconfig != "" && c.KubernetesNode == "" {
		name, _ := os.Hostname()
		c.KubernetesNode = strings.ToLower(name)
	}
	return c, c.validate()
}

func (c *Config) readFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	var doc map[string]yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("config %s: %w", path, err)
	}
	var wrong *multierror.Error
	for name, node := range doc {
		if err := c.readSetting(name, node); err != nil {
			wrong = multierror.Append(wrong, fmt.Errorf("config %s:%d: %w", path, node.Line, err))
		}
	}
	if wrong != nil {
		sort.Sort(wrong) // the settings of a file come in no order
	}
	return inLines(wrong)
}

func (c *Config) readSetting(name string, node yaml.Node) error {
	for _, s := range Settings() {
		if s.Name != name {
			continue
		}
		if s.list != nil && node.Kind == yaml.SequenceNode {
			return node.Decode(s.list(c))
		}
		var v string
		if err := node.Decode(&v); err != nil {
			return fmt.Errorf("%s: want a text: %w", name, err)
		}
		s.Set(c, v)
		return nil
	}
	return fmt.Errorf("%s: there is no such setting; did you mean %s?", name, nearest(name))
}

// nearest finds the setting that is spelt most alike.
func nearest(name string) string {
	best, least := "", 1<<30
	for _, s := range Settings() {
		if d := models.Distance(name, s.Name, least); d < least {
			best, least = s.Name, d
		}
	}
	return best
}

// maxHistory bounds the history and the events on disk, in MiB: all of them are
// read at the start.
const maxHistory = 1024

var isLabel = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,63}$`)

func (c *Config) validate() error {
	if !isLabel.MatchString(c.Label) {
		return fmt.Errorf("label %q: want 1 to 63 letters, digits, dots, dashes or underscores; set it with --label", c.Label)
	}
	for name, dir := range map[string]*string{"run-dir": &c.RunDir, "state-dir": &c.StateDir} {
		abs, err := filepath.Abs(*dir)
		if err != nil || *dir == "" {
			return fmt.Errorf("%s: want a directory", name)
		}
		*dir = abs
	}
	if c.Shadow != on && c.Shadow != off {
		return fmt.Errorf("shadow %q: want on or off", c.Shadow)
	}
	if err := loglevel.New(logParts...).SetAll(c.LogLevel); err != nil {
		return fmt.Errorf("log-level: %w", err)
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return fmt.Errorf("log-format %q: want text or json", c.LogFormat)
	}
	if c.OTLP != "" {
		if err := trace.CheckEndpoint(c.OTLP); err != nil {
			return fmt.Errorf("otlp %q: %w", c.OTLP, err)
		}
	}
	for name, mib := range map[string]string{"history": c.History, "events": c.Events} {
		if n, err := strconv.Atoi(mib); err != nil || n < 0 || n > maxHistory {
			return fmt.Errorf("%s %q: want a number of MiB from 0 to %d", name, mib, maxHistory)
		}
	}
	if _, err := c.samplingDepth(); err != nil {
		return err
	}
	if _, err := c.sampling(); err != nil {
		return err
	}
	if c.Intent != "" {
		if st, err := os.Stat(c.Intent); err != nil || !st.IsDir() {
			return fmt.Errorf("intent %s: want a directory that is there", c.Intent)
		}
	}
	if err := c.checkKubernetes(); err != nil {
		return err
	}
	if err := c.checkListen(); err != nil {
		return err
	}
	if _, err := parsePolicies(c.Policy); err != nil {
		return err
	}
	if _, err := c.labelRules(); err != nil {
		return err
	}
	if _, err := record.ParseLabels(c.Labels); err != nil {
		return err
	}
	_, err := c.runtimes()
	return err
}

// isNode is what the name of a node is at the API server (RFC 1123).
var isNode = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)

// checkKubernetes checks how pods are read. The kubeconfig may come later.
func (c *Config) checkKubernetes() error {
	switch {
	case c.KubernetesNetworkStatus != on && c.KubernetesNetworkStatus != off:
		return fmt.Errorf("kubernetes-network-status %q: want on or off", c.KubernetesNetworkStatus)
	case c.Kubeconfig == "" && c.KubernetesNetworkStatus == on:
		return errors.New("kubernetes-network-status: goes with kubeconfig only")
	case c.Kubeconfig == "" && c.KubernetesNode != "":
		return errors.New("kubernetes-node: goes with kubeconfig only")
	case c.Kubeconfig == "":
		return nil
	case c.Kubeconfig != mirror.InCluster && !filepath.IsAbs(c.Kubeconfig):
		return fmt.Errorf("kubeconfig %q: want in-cluster, or the path of a file from /", c.Kubeconfig)
	case !isNode.MatchString(c.KubernetesNode):
		return fmt.Errorf("kubernetes-node %q: want the name of this node at the API server, such as node-1.example.org", c.KubernetesNode)
	}
	return nil
}

// YAML is the configuration as a file that would set it.
func (c Config) YAML() string {
	var doc yaml.Node
	doc.Kind = yaml.MappingNode
	for _, s := range Settings() {
		var v yaml.Node
		if s.list != nil {
			_ = v.Encode(*s.list(&c))
			v.Style = yaml.FlowStyle
		} else {
			v.SetString(s.Get(&c))
		}
		doc.Content = append(doc.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: s.Name}, &v)
	}
	out, _ := yaml.Marshal(&doc)
	return string(out)
}
