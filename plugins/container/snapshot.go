package container

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plumb-net/plumb/models"
)

// snapshot is what is known at one time. It never changes once published.
type snapshot struct {
	containers    map[string]*models.Container    // by key name; nil: surely gone
	microservices map[string]*models.Microservice // by label; nil: surely gone
	order         []string                        // the keys of containers, sorted
	// unknown says why what is in neither map may exist all the same.
	unknown error
	// synced: every runtime was known once, or was not there.
	synced bool
	claims claims
}

// member is one container that goes into a snapshot.
type member struct {
	runtime string
	key     string // <runtime>:<id>
	// former is its value in the snapshot before, if nothing that the runtime or
	// the kernel told of it has changed since.
	former *models.Container
	Container
	label string
	// barred says why it does not carry the label that it bears, "" if nothing does.
	barred string
	// netns is the inode of its namespace, 0 if it has no living process.
	netns uint64
	// trouble says why its process cannot be used, "" if it can.
	trouble string
	// failure is why its last inspect failed, if it did.
	failure error
	// lastAddresses are those of its last run, once that is over.
	lastAddresses []string
	// owner has the namespace that it shares; members share its own.
	owner   string
	members []string
	// joined says whose namespace it joined, "" if it got its own.
	joined string
}

func (m *member) id() string { return m.key }

// title names a container to people: short, but enough to find it.
func (m *member) title() string {
	id := m.ID
	if len(id) > 12 {
		id = id[:12]
	}
	if m.Name == "" {
		return m.runtime + ":" + id
	}
	return fmt.Sprintf("%s:%s (%s)", m.runtime, id, m.Name)
}

// refusal says why nothing can be configured in the member's namespace,
// whatever its label; "" if it can. host holds the namespaces of the host.
func (m *member) refusal(host map[uint64]bool) string {
	switch {
	case m.HostNetwork:
		return "host network mode: its namespace is that of the host"
	case host[m.netns] && m.Joins != "":
		return "it joined a container in host network mode: its namespace is that of the host"
	case host[m.netns]:
		return "its namespace is that of the host or of the agent"
	}
	return m.trouble
}

// resolve makes values out of members: it decides which container serves a
// label and what is refused. own are the namespaces of the agent and of the host.
func resolve(members []*member, own []uint64, rules LabelRules) (map[string]*models.Container, map[string]*models.Microservice, claims) {
	members = slices.SortedFunc(slices.Values(members), byID)
	nameOwners(members)
	host := hostNamespaces(members, own)
	shareNamespaces(members, host)
	containers := make(map[string]*models.Container, len(members))
	noted := newClaims()
	candidates := map[string][]*member{}
	for _, m := range members {
		refused := ""
		if m.Running {
			refused = m.refusal(host)
		}
		if m.label != "" {
			m.barred = rules.bar(m)
		} else if m.Running && m.barred != "" {
			noted.refused[m.key] = m.barred
		}
		containers[m.id()] = m.container(refused)
		if m.label != "" && m.Running {
			candidates[m.label] = append(candidates[m.label], m)
		}
	}
	return containers, serve(candidates, host, rules, noted), noted
}

// nameOwners finds the containers whose namespaces others joined. An owner that
// restarts gets a new namespace and leaves the others in the old one.
func nameOwners(members []*member) {
	owners := make(map[string]*member, len(members))
	for _, m := range members {
		owners[m.id()] = m
		owners[m.runtime+":"+m.Name] = m
	}
	for _, m := range members {
		owner := owners[m.runtime+":"+m.Joins]
		switch {
		case m.Joins == "":
		case owner == nil:
			m.joined = "it lives in the network namespace of a container that is gone"
		case owner.netns != m.netns:
			m.joined = "it lives in a former network namespace of container " + owner.title() + "; restart it to join the present one"
		default:
			m.joined = "it shares the network namespace of container " + owner.title()
		}
	}
}

// shareNamespaces finds out who lives together: one has the namespace, the
// others are members. It is the one for which it was made or, if that is gone,
// the one that has been in it for longest.
func shareNamespaces(members []*member, host map[uint64]bool) {
	together := map[uint64][]*member{}
	for _, m := range members {
		if m.netns != 0 && !host[m.netns] {
			together[m.netns] = append(together[m.netns], m)
		}
	}
	for _, ms := range together {
		slices.SortStableFunc(ms, byRight)
		for _, m := range ms[1:] {
			m.owner = ms[0].id()
			ms[0].members = append(ms[0].members, m.id())
		}
		slices.Sort(ms[0].members)
	}
}

// byRight orders those who share a namespace, the owner first.
func byRight(a, b *member) int {
	if (a.Joins == "") != (b.Joins == "") {
		if a.Joins == "" {
			return -1
		}
		return 1
	}
	return cmp.Or(a.StartedAt.Compare(b.StartedAt), byID(a, b))
}

func byID(a, b *member) int { return cmp.Compare(a.id(), b.id()) }

func hostNamespaces(members []*member, own []uint64) map[uint64]bool {
	host := map[uint64]bool{}
	for _, ns := range own {
		host[ns] = true
	}
	for _, m := range members {
		if m.HostNetwork {
			host[m.netns] = true
		}
	}
	delete(host, 0)
	return host
}

// claimant is the container that serves a label.
type claimant struct {
	*member
	value *models.Microservice
}

// serve chooses a container for each label and then settles who has each
// namespace.
func serve(candidates map[string][]*member, host map[uint64]bool, rules LabelRules, noted claims) map[string]*models.Microservice {
	values := make(map[string]*models.Microservice, len(candidates))
	sharing := map[uint64][]claimant{}
	for _, label := range slices.Sorted(maps.Keys(candidates)) {
		twins := candidates[label]
		slices.SortStableFunc(twins, func(a, b *member) int { return betterServer(a, b, host, rules) })
		ownerFirst(twins)
		noted.settled(label, twins, host, rules)
		v := twins[0].microservice(twins[0].unusable(host))
		for _, t := range twins[1:] {
			v.Conflicts = append(v.Conflicts, "container "+t.title()+" has the label too and waits: "+behind(twins[0], t, host, rules))
		}
		values[label] = v
		if v.Refused == "" {
			sharing[v.Netns] = append(sharing[v.Netns], claimant{twins[0], v})
		}
	}
	for _, claimants := range sharing {
		settleNamespace(claimants)
	}
	return values
}

// betterServer orders the containers with one label, the one that serves it
// first: usable ones before refused ones, then the newest start, or the oldest.
func betterServer(a, b *member, host map[uint64]bool, rules LabelRules) int {
	if ra, rb := a.unusable(host) != "", b.unusable(host) != ""; ra != rb {
		if rb {
			return -1
		}
		return 1
	}
	if rules.Incumbent {
		a, b = b, a
	}
	return b.StartedAt.Compare(a.StartedAt)
}

// unusable says why the member cannot serve its label, "" if it can.
func (m *member) unusable(host map[uint64]bool) string {
	return cmp.Or(m.barred, m.refusal(host))
}

// ownerFirst lets a label go to the container that the namespace of the first
// one was made for, if it bears the label too: in a pod the sandbox stays while
// its containers come and go.
func ownerFirst(twins []*member) {
	for i, t := range twins {
		if twins[0].Joins != "" && t.Joins == "" && t.netns == twins[0].netns && t.barred == "" {
			copy(twins[1:i+1], twins[:i])
			twins[0] = t
			return
		}
	}
}

func behind(winner, loser *member, host map[uint64]bool, rules LabelRules) string {
	switch why := loser.unusable(host); {
	case why != "" && winner.unusable(host) == "":
		return why
	case loser.netns == winner.netns:
		return "they share a network namespace"
	case rules.Incumbent:
		return "it started later, and label-conflict is incumbent"
	}
	return "it started earlier"
}

// settleNamespace gives a namespace that bears several labels to one of them:
// to the container that the namespace was made for, else to the oldest, so
// that one who joins later takes nothing away from those who are there.
func settleNamespace(claimants []claimant) {
	if len(claimants) < 2 {
		return
	}
	slices.SortStableFunc(claimants, func(a, b claimant) int { return byRight(a.member, b.member) })
	first := claimants[0]
	for _, c := range claimants[1:] {
		c.value.Refused = fmt.Sprintf("its network namespace is shared with microservice/%s (container %s), which has it", first.label, first.title())
		first.value.Conflicts = append(first.value.Conflicts, fmt.Sprintf("microservice/%s (container %s) shares the network namespace and is refused", c.label, c.title()))
	}
}

func (m *member) microservice(refused string) *models.Microservice {
	v := &models.Microservice{
		Runtime:     m.runtime,
		ContainerId: m.ID,
		Name:        m.Name,
		Image:       m.Image,
		Pid:         uint32(m.Pid),
		Netns:       m.netns,
		StartedAt:   timeText(m.StartedAt),
		Refused:     refused,
	}
	if m.joined != "" {
		v.Conflicts = append(v.Conflicts, m.joined)
	}
	return v
}

func (m *member) container(refused string) *models.Container {
	failure := ""
	if m.failure != nil {
		failure = m.failure.Error()
	}
	if f := m.former; f != nil && f.Reason == m.Reason && f.Error == failure && f.Refused == refused && f.LabelRefused == m.barred &&
		f.NetworkOwner == m.owner && slices.Equal(f.NetworkMembers, m.members) {
		return f
	}
	finished, code := m.FinishedAt, m.ExitCode
	if m.Running { // what the runtime says is of a run before, or of none
		finished, code = time.Time{}, 0
	}
	return &models.Container{
		Runtime:      m.runtime,
		ContainerId:  m.ID,
		Name:         m.Name,
		Image:        m.Image,
		State:        m.State,
		Pid:          uint32(m.Pid),
		Netns:        m.netns,
		StartedAt:    timeText(m.StartedAt),
		FinishedAt:   timeText(finished),
		ExitCode:     int32(code),
		Reason:       m.Reason,
		Labels:       m.Labels,
		Microservice: m.label,
		Addresses:    m.Addresses,
		Refused:      refused,

		CreatedAt:      timeText(m.CreatedAt),
		Error:          failure,
		NetworkOwner:   m.owner,
		NetworkMembers: m.members,
		LastAddresses:  m.lastAddresses,
		LabelRefused:   m.barred,
	}
}

// timeText is RFC 3339 with all digits, "" for a time that is not set.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
