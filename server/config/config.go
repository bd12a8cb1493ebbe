package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkserver/zkserver/zab"
)

// Defaults and bounds that are not Java's own are explained where they are used.
const (
	DefaultTickTime       = 3 * time.Second
	DefaultMaxClientCnxns = 60
	DefaultMaxBuffer      = 0xfffff
	DefaultOutstanding    = 16384 // Java's 1000 would hold back what one sync and one quorum round can carry
	DefaultFsyncWarning   = time.Second
	DefaultReapInterval   = time.Minute
	DefaultReapPerMinute  = 10000

	// MaxBufferLimit: lengths from here on cannot be told from a TLS record or an ASCII word (wire-protocol 1.1).
	MaxBufferLimit = 0x16030000

	minQuorumSessionTimeout = 250 * time.Millisecond
	minLease                = 60 * time.Millisecond
)

// Config is a complete, validated configuration of one server.
type Config struct {
	File       string // the zoo.cfg
	DataDir    string // the applied state and myid
	DataLogDir string // the transaction log; DataDir unless set

	ClientAddr string // host:port to listen on; the host is empty for every address
	TickTime   time.Duration
	InitLimit  int // ticks
	SyncLimit  int // ticks
	// SilenceLimit is how long another server may be silent, at most SyncLimit ticks; zero: a second.
	SilenceLimit time.Duration

	MinSessionTimeout time.Duration
	MaxSessionTimeout time.Duration

	MaxClientCnxns   int // connections an address; 0: no limit
	MaxCnxns         int // connections in all; 0: no limit
	MaxBuffer        int // bytes of a request frame
	OutstandingLimit int // requests in flight in all
	Whitelist        []string
	WhitelistSet     bool // an explicit list is obeyed exactly
	SkipACL          bool
	SuperDigest      string
	X509, SASL       bool   // access lists may name ids of these schemes
	X509SuperUser    string // the x509 id that matches every x509 entry
	AnySASLUser      string // the id whose sasl entries every sasl user matches
	ExtendedTypes    bool
	EnforceQuota     bool
	Ensemble         []string // names by which clients may call this ensemble; nil: they do not name it
	EnforceAuth      []string // schemes of which a client needs an identity before any request; nil: none is needed

	// Removal of containers and TTL nodes by the leader.
	ReapInterval  time.Duration
	ReapPerMinute int
	ReapNeverUsed time.Duration // of containers that never had a child; 0: never

	ForceSync       bool
	FsyncWarning    time.Duration
	CommitLogCount  int // least number of transactions kept for DIFF; 0: the store's default
	QuorumListenAll bool
	ServerID        zab.ServerID
	Servers         []Server // ascending by id; the one server of an ensemble of one included
	Standalone      bool     // an ensemble of one without a server.N line of its own: Mode says standalone
	Hierarchical    bool
	Notices         []Notice
}

// Notice is one line for the log at start: a key that is not acted on, or something the operator should know.
type Notice struct {
	Line    int // 0: not about a line
	Key     string
	Text    string
	Warning bool
}

// Error is one fault of a configuration.
type Error struct {
	File string
	Line int // 0: about the file as a whole
	Text string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Text)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
}

// Flags are what the command line and the environment add.
type Flags struct {
	MyID   string // --myid or ZOO_MY_ID; must agree with the file where both are there
	Strict bool   // unknown keys are errors
}

// Load reads a zoo.cfg, its dynamic file and myid. All faults are reported at once, joined; each is an *Error.
func Load(file string, f Flags) (*Config, error) {
	c, err := Check(file, f)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Check is Load for who wants to know all that is to be said of a file: a configuration with faults is returned too, for
// its Notices.
func Check(file string, f Flags) (*Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return new(Config), fmt.Errorf("reading the configuration: %w", err)
	}
	p := &parser{flags: f, c: &Config{
		File: file, TickTime: DefaultTickTime, MaxClientCnxns: DefaultMaxClientCnxns, MaxBuffer: DefaultMaxBuffer,
		OutstandingLimit: DefaultOutstanding, ForceSync: true, FsyncWarning: DefaultFsyncWarning,
		ReapInterval: DefaultReapInterval, ReapPerMinute: DefaultReapPerMinute,
	}}
	p.file = file
	p.parse(parseProperties(string(text)))
	p.finish()
	return p.c, errors.Join(p.errs...)
}

// parser collects the keys, and every fault instead of the first.
type parser struct {
	c     *Config
	flags Flags
	file  string
	errs  []error
	seen  map[string]int

	clientPort   int
	clientHost   string
	minSet       bool
	maxSet       bool
	dynamicFile  string
	dynamicLine  int
	peerType     string
	noStandalone bool
	enforceAuth  bool
	ensemble     bool // its authentication provider is configured
	names        []string
	memberLine   int
	groups       map[uint64][]zab.ServerID
	weights      map[zab.ServerID]uint64
}

func (p *parser) fault(line int, format string, args ...any) {
	p.errs = append(p.errs, &Error{File: p.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

func (p *parser) notice(line int, key, text string) {
	p.c.Notices = append(p.c.Notices, Notice{Line: line, Key: key, Text: text})
}

func (p *parser) warn(line int, key, text string) {
	p.c.Notices = append(p.c.Notices, Notice{Line: line, Key: key, Text: text, Warning: true})
}

func (p *parser) parse(props []property) {
	p.seen = map[string]int{}
	p.groups, p.weights = map[uint64][]zab.ServerID{}, map[zab.ServerID]uint64{}
	for _, kv := range props {
		if p.family(kv) {
			continue
		}
		key, info, known := lookup(kv.key)
		if old, dup := p.seen[key]; dup {
			p.warn(kv.line, kv.key, fmt.Sprintf("given again; line %d is overridden", old))
		}
		p.seen[key] = kv.line
		switch {
		case !known:
			p.unknown(kv)
		case info.treatment == act:
			p.set(key, kv)
		case info.treatment == note || info.treatment == later:
			p.notice(kv.line, kv.key, info.why)
		case info.treatment == danger:
			if on, ok := p.boolean(kv); ok && on {
				p.fault(kv.line, "%s=%s is refused: %s", kv.key, kv.value, info.why)
			}
		case info.treatment == refuse:
			harmless := key == "DigestAuthenticationProvider.digestAlg" && kv.value == "SHA1" ||
				key == "DigestAuthenticationProvider.enabled" && kv.value == "true"
			if !harmless {
				p.fault(kv.line, "%s=%s is refused: %s", kv.key, kv.value, info.why)
			}
		}
	}
}

func (p *parser) unknown(kv property) {
	text := "unknown key, ignored"
	if n := nearest(strings.TrimPrefix(kv.key, "zookeeper.")); n != "" {
		text += "; the nearest known key is " + n
	}
	if p.flags.Strict {
		p.fault(kv.line, "%s: %s", kv.key, text)
		return
	}
	p.warn(kv.line, kv.key, text)
}

// family handles keys with a number in their name.
func (p *parser) family(kv property) bool {
	prefix, n, ok := strings.Cut(strings.TrimPrefix(kv.key, "zookeeper."), ".")
	if !ok {
		return false
	}
	switch prefix {
	case "server":
		p.server(kv, n)
	case "group":
		p.group(kv, n)
	case "weight":
		p.weight(kv, n)
	case "authProvider":
		switch builtinProviders[kv.value] {
		case "":
			p.fault(kv.line, "%s=%s is refused: this class is not known, ids of its scheme would never match; known are the built-in providers digest, ip, sasl, x509 and ensemble", kv.key, kv.value)
		case "sasl":
			p.c.SASL = true
			p.notice(kv.line, kv.key, "access lists may name sasl ids; no client can prove one in this version")
		case "x509":
			p.c.X509 = true
			p.notice(kv.line, kv.key, "access lists may name x509 ids; no client can prove one in this version")
		case "ensemble":
			p.ensemble = true
		}
	default:
		return false
	}
	return true
}

func (p *parser) server(kv property, n string) {
	if p.memberLine == 0 {
		p.memberLine = kv.line
	}
	id, err := parseServerID(n)
	if err != nil {
		p.fault(kv.line, "%s: %v", kv.key, err)
		return
	}
	s, err := parseServer(id, kv.value)
	if err != nil {
		p.fault(kv.line, "%s: %v", kv.key, err)
		return
	}
	for _, o := range p.c.Servers {
		if o.ID == id {
			p.fault(kv.line, "%s: server %d is given twice", kv.key, id)
			return
		}
		for _, q := range s.Quorum {
			if slices.Contains(o.Quorum, q) {
				p.fault(kv.line, "%s: servers %d and %d have the same quorum address %s", kv.key, o.ID, id, q)
				return
			}
		}
	}
	p.c.Servers = append(p.c.Servers, s)
}

func (p *parser) group(kv property, n string) {
	g, err := strconv.ParseUint(n, 10, 63)
	if err != nil {
		p.fault(kv.line, "%s: %q is not a group number", kv.key, n)
		return
	}
	for _, m := range strings.Split(kv.value, ":") {
		id, err := parseServerID(m)
		if err != nil {
			p.fault(kv.line, "%s: %v (want sid[:sid...])", kv.key, err)
			return
		}
		p.groups[g+1] = append(p.groups[g+1], id) // zero means "no group"
	}
}

func (p *parser) weight(kv property, n string) {
	id, err := parseServerID(n)
	if err != nil {
		p.fault(kv.line, "%s: %v", kv.key, err)
		return
	}
	w, err := strconv.ParseUint(kv.value, 10, 32)
	if err != nil {
		p.fault(kv.line, "%s: weight %q is not a number from 0 to %d", kv.key, kv.value, uint32(1<<32-1))
		return
	}
	p.weights[id] = w
}

func (p *parser) boolean(kv property) (value, ok bool) {
	switch strings.ToLower(kv.value) {
	case "true", "yes":
		return true, true
	case "false", "no", "":
		return false, true
	}
	p.fault(kv.line, "%s=%s: want true or false", kv.key, kv.value)
	return false, false
}

// number reads an integer in [lo, hi]; -1 is allowed besides where unset is set.
func (p *parser) number(kv property, lo, hi int, unset bool) (int, bool) {
	n, err := strconv.Atoi(kv.value)
	if err == nil && unset && n == -1 {
		return -1, true
	}
	if err != nil || n < lo || n > hi {
		also := ""
		if unset {
			also = ", or -1 for the default"
		}
		p.fault(kv.line, "%s=%s: want a number from %d to %d%s", kv.key, kv.value, lo, hi, also)
		return 0, false
	}
	return n, true
}

// milliseconds above this would overflow a session timeout on the wire.
const maxMs = 1<<31 - 1

func (p *parser) set(key string, kv property) {
	c := p.c
	switch key {
	case "dataDir":
		c.DataDir = kv.value
	case "dataLogDir":
		c.DataLogDir = kv.value
	case "clientPort":
		if n, ok := p.number(kv, 0, 65535, false); ok {
			p.clientPort = n
		}
	case "clientPortAddress":
		p.clientHost = strings.Trim(kv.value, "[]")
	case "tickTime":
		if n, ok := p.number(kv, 1, maxMs, false); ok {
			c.TickTime = time.Duration(n) * time.Millisecond
		}
	case "initLimit":
		c.InitLimit, _ = p.number(kv, 1, maxMs, false)
	case "syncLimit":
		c.SyncLimit, _ = p.number(kv, 1, maxMs, false)
	case "silenceLimit":
		if n, ok := p.number(kv, 100, maxMs, false); ok {
			c.SilenceLimit = time.Duration(n) * time.Millisecond
		}
	case "minSessionTimeout":
		if n, ok := p.number(kv, 1, maxMs, true); ok && n > 0 {
			c.MinSessionTimeout, p.minSet = time.Duration(n)*time.Millisecond, true
		}
	case "maxSessionTimeout":
		if n, ok := p.number(kv, 1, maxMs, true); ok && n > 0 {
			c.MaxSessionTimeout, p.maxSet = time.Duration(n)*time.Millisecond, true
		}
	case "maxClientCnxns":
		c.MaxClientCnxns, _ = p.number(kv, 0, maxMs, false)
	case "maxCnxns":
		c.MaxCnxns, _ = p.number(kv, 0, maxMs, false)
	case "electionAlg":
		if kv.value != "3" {
			p.fault(kv.line, "electionAlg=%s: only 3 is supported", kv.value)
		}
	case "peerType":
		p.peerType = strings.ToLower(kv.value)
		if p.peerType != "participant" && p.peerType != "observer" {
			p.fault(kv.line, "peerType=%s: want participant or observer", kv.value)
		}
	case "dynamicConfigFile":
		p.dynamicFile, p.dynamicLine = kv.value, kv.line
	case "standaloneEnabled":
		on, ok := p.boolean(kv)
		p.noStandalone = ok && !on
	case "quorumListenOnAllIPs":
		c.QuorumListenAll, _ = p.boolean(kv)
	case "version":
		p.notice(kv.line, kv.key, "the membership's version is the ensemble's own")
	case "4lw.commands.whitelist":
		c.WhitelistSet = true
		for _, w := range strings.Split(kv.value, ",") {
			if w = strings.TrimSpace(w); w != "" {
				c.Whitelist = append(c.Whitelist, w)
			}
		}
	case "commitLogCount":
		c.CommitLogCount, _ = p.number(kv, 1, maxMs, false)
	case "forceSync":
		if on, ok := p.boolean(kv); ok && !on {
			c.ForceSync = false
			p.warn(kv.line, kv.key, "acknowledged writes are lost when the machine fails: the log is not synced")
		}
	case "fsync.warningthresholdms":
		if n, ok := p.number(kv, 0, maxMs, false); ok {
			c.FsyncWarning = time.Duration(n) * time.Millisecond
		}
	case "jute.maxbuffer":
		if n, ok := p.number(kv, 1024, MaxBufferLimit-1, false); ok {
			c.MaxBuffer = n
		}
	case "globalOutstandingLimit":
		c.OutstandingLimit, _ = p.number(kv, 1, maxMs, false)
	case "skipACL":
		if on, ok := p.boolean(kv); ok && on {
			c.SkipACL = true
			p.warn(kv.line, kv.key, "no permission is checked: every client may read and change everything")
		}
	case "extendedTypesEnabled":
		c.ExtendedTypes, _ = p.boolean(kv)
	case "enforceQuota":
		c.EnforceQuota, _ = p.boolean(kv)
	case "znode.container.checkIntervalMs":
		if n, ok := p.number(kv, 1, maxMs, false); ok {
			c.ReapInterval = time.Duration(n) * time.Millisecond
		}
	case "znode.container.maxPerMinute":
		c.ReapPerMinute, _ = p.number(kv, 1, maxMs, false)
	case "znode.container.maxNeverUsedIntervalMs":
		if n, ok := p.number(kv, 0, maxMs, false); ok {
			c.ReapNeverUsed = time.Duration(n) * time.Millisecond
		}
	case "enforce.auth.enabled":
		p.enforceAuth, _ = p.boolean(kv)
	case "enforce.auth.schemes":
		p.authSchemes(kv)
	case "ensembleAuthName":
		for _, n := range strings.Split(kv.value, ",") {
			if n = strings.TrimSpace(n); n != "" {
				p.names = append(p.names, n)
			}
		}
	case "X509AuthenticationProvider.superUser":
		c.X509SuperUser = kv.value
	case "letAnySaslUserDoX":
		c.AnySASLUser = kv.value
	case "DigestAuthenticationProvider.superDigest":
		c.SuperDigest = kv.value
	}
}

// authSchemes reads the schemes that are enough where authentication is enforced. Those that no client can use here are
// refused: it would lock everybody out.
func (p *parser) authSchemes(kv property) {
	for _, s := range strings.Split(kv.value, ",") {
		switch s = strings.TrimSpace(s); s {
		case "":
		case "digest", "ip":
			p.c.EnforceAuth = append(p.c.EnforceAuth, s)
		default:
			p.fault(kv.line, "%s: no client can authenticate by the scheme %q here; possible are digest and ip", kv.key, s)
		}
	}
}

// finish checks what concerns several keys at once.
func (p *parser) finish() {
	c := p.c
	if c.DataDir == "" {
		p.fault(0, "dataDir is not set")
	}
	if c.DataLogDir == "" {
		c.DataLogDir = c.DataDir
	}
	p.readDynamicFile()
	slices.SortFunc(c.Servers, func(a, b Server) int { return int(a.ID) - int(b.ID) })
	p.membership()
	p.clientAddress()
	p.sessionTimeouts()
	switch line := p.seen["ensembleAuthName"]; {
	case p.ensemble && len(p.names) == 0:
		p.fault(0, "authProvider names the provider of the scheme ensemble, but ensembleAuthName gives no name: every client that names one would be refused")
	case p.ensemble:
		c.Ensemble = p.names
	case len(p.names) > 0:
		p.notice(line, "ensembleAuthName", "without effect: no authProvider.N names the provider of the scheme ensemble")
	}
	switch line := p.seen["enforce.auth.enabled"]; {
	case !p.enforceAuth:
		c.EnforceAuth = nil
	case len(c.EnforceAuth) == 0:
		p.fault(line, "enforce.auth.enabled is set, but enforce.auth.schemes names no scheme")
	}
}

func (p *parser) readDynamicFile() {
	if p.dynamicFile == "" {
		return
	}
	if p.memberLine > 0 {
		p.fault(p.memberLine, "membership is given here and in dynamicConfigFile=%s; give it in one place", p.dynamicFile)
		return
	}
	text, err := os.ReadFile(p.dynamicFile)
	if err != nil {
		p.fault(p.dynamicLine, "dynamicConfigFile: %v", err)
		return
	}
	static := p.file
	p.file = p.dynamicFile
	defer func() { p.file = static }()
	for _, kv := range parseProperties(string(text)) {
		if kv.key == "version" {
			p.fault(kv.line, "dynamic file shouldn't have version inside")
			continue
		}
		if !p.family(kv) {
			p.fault(kv.line, "%s: only server.N, group.N and weight.N belong in a dynamic file", kv.key)
		}
	}
}

func (p *parser) membership() {
	c := p.c
	if err := applyGroups(c.Servers, p.groups, p.weights); err != nil {
		p.fault(0, "%v", err)
	}
	c.Hierarchical = len(p.groups) > 0
	voters := 0
	for _, s := range c.Servers {
		if !s.Observer {
			voters++
		}
	}
	switch {
	case len(c.Servers) == 0:
		c.Standalone = true
		c.ServerID = 1
		c.Servers = []Server{{Member: zab.Member{ID: 1, Weight: 1}}}
		if p.peerType == "observer" {
			p.fault(0, "peerType=observer without server.N lines: Observers w/o participants is an invalid configuration")
		}
	case voters == 0:
		p.fault(0, "Observers w/o participants is an invalid configuration")
	case len(c.Servers) == 1 && !p.noStandalone:
		c.Standalone = true
	}
	if c.Standalone && len(c.Servers) == 1 && c.Servers[0].Quorum == nil {
		p.myidOptional()
		return
	}
	if c.InitLimit == 0 && !c.Standalone {
		p.fault(0, "initLimit is not set")
	}
	if c.SyncLimit == 0 && !c.Standalone {
		p.fault(0, "syncLimit is not set")
	}
	p.myid()
}

// myidOptional: a standalone server needs no myid; where one is given it is the server's id.
func (p *parser) myidOptional() {
	text, err := os.ReadFile(filepath.Join(p.c.DataDir, "myid"))
	given := strings.TrimSpace(string(text))
	if err != nil || given == "" {
		given = p.flags.MyID
	}
	if given == "" {
		return
	}
	if id, err := parseServerID(given); err == nil {
		p.c.ServerID = id
		p.c.Servers[0].ID = id
	} else {
		p.fault(0, "myid: %v", err)
	}
}

func (p *parser) myid() {
	c := p.c
	name := filepath.Join(c.DataDir, "myid")
	text, err := os.ReadFile(name)
	given := strings.TrimSpace(strings.SplitN(string(text), "\n", 2)[0])
	switch {
	case err == nil && given != "" && p.flags.MyID != "" && given != p.flags.MyID:
		p.fault(0, "%s says %s, the flag or environment says %s; they must agree", name, given, p.flags.MyID)
		return
	case err != nil && p.flags.MyID == "":
		p.fault(0, "myid file is missing: write this server's number (the N of its server.N line) to %s, or give --myid", name)
		return
	case err != nil || given == "":
		given = p.flags.MyID
	}
	id, err := parseServerID(given)
	if err != nil {
		p.fault(0, "%s: %v", name, err)
		return
	}
	c.ServerID = id
	i := slices.IndexFunc(c.Servers, func(s Server) bool { return s.ID == id })
	if i < 0 {
		ids := make([]string, 0, len(c.Servers))
		for _, s := range c.Servers {
			ids = append(ids, strconv.Itoa(int(s.ID)))
		}
		p.fault(0, "this server is %d (%s), but there is no server.%d line; there are lines for %s", id, name, id, strings.Join(ids, ", "))
		return
	}
	if role := p.peerType; role != "" && (role == "observer") != c.Servers[i].Observer {
		p.warn(p.seen["peerType"], "peerType", fmt.Sprintf("the line server.%d says otherwise and wins", id))
	}
}

func (p *parser) clientAddress() {
	c := p.c
	own, found := "", false
	for _, s := range c.Servers {
		if s.ID == c.ServerID {
			own, found = s.Client, true
		}
	}
	_, portGiven := p.seen["clientPort"]
	switch {
	case !found && !portGiven && len(c.Servers) > 0 && len(p.errs) > 0:
		// Which line is this server's is the fault that was told; what the line says is not known.
	case own == "" && !portGiven && p.clientHost != "":
		p.fault(p.seen["clientPortAddress"], "clientPortAddress is set but clientPort is not set")
	case own == "" && !portGiven:
		p.fault(0, "clientPort is not set (and the server's own line names no client port)")
	case own == "":
		c.ClientAddr = net.JoinHostPort(p.clientHost, strconv.Itoa(p.clientPort))
	default:
		host, port, _ := net.SplitHostPort(own)
		if portGiven && strconv.Itoa(p.clientPort) != port {
			p.fault(p.seen["clientPort"], "clientPort=%d, but the line server.%d says %s; they must agree", p.clientPort, c.ServerID, port)
		}
		if host == "0.0.0.0" {
			host = p.clientHost
		}
		c.ClientAddr = net.JoinHostPort(host, port)
	}
	for i, s := range c.Servers { // a server without client part inherits clientPort
		if s.Client == "" && portGiven && !c.Standalone {
			host := "0.0.0.0"
			if s.ID == c.ServerID && p.clientHost != "" {
				host = p.clientHost
			}
			c.Servers[i].Client = net.JoinHostPort(host, strconv.Itoa(p.clientPort))
		}
	}
}

// sessionTimeouts derives the bounds. With several servers, minSessionTimeout must leave room for a serving lease of
// at least 60 ms (architecture 4.13): it is raised to 250 ms where it would not.
func (p *parser) sessionTimeouts() {
	c := p.c
	if !p.minSet {
		c.MinSessionTimeout = 2 * c.TickTime
	}
	if !p.maxSet {
		c.MaxSessionTimeout = 20 * c.TickTime
	}
	if len(c.Servers) > 1 && c.MinSessionTimeout < minQuorumSessionTimeout {
		p.warn(p.seen["minSessionTimeout"], "minSessionTimeout", fmt.Sprintf("raised from %s to %s: a shorter one leaves no time for the serving lease", c.MinSessionTimeout, minQuorumSessionTimeout))
		c.MinSessionTimeout = minQuorumSessionTimeout
		c.MaxSessionTimeout = max(c.MaxSessionTimeout, c.MinSessionTimeout)
	}
	if c.MinSessionTimeout > c.MaxSessionTimeout {
		p.fault(p.seen["minSessionTimeout"], "minSessionTimeout must not be larger than maxSessionTimeout (%s > %s)", c.MinSessionTimeout, c.MaxSessionTimeout)
	}
}

// Members lists the ensemble as the cores want it.
func (c *Config) Members() []zab.Member {
	out := make([]zab.Member, 0, len(c.Servers))
	for _, s := range c.Servers {
		out = append(out, s.Member)
	}
	return out
}

// Self is this server's own line.
func (c *Config) Self() Server {
	for _, s := range c.Servers {
		if s.ID == c.ServerID {
			return s
		}
	}
	return Server{}
}

// FourLetterWords are the words that are answered; nil is the default set. An explicit list is obeyed exactly, an
// empty one too.
func (c *Config) FourLetterWords() []string {
	if c.WhitelistSet && c.Whitelist == nil {
		return []string{}
	}
	return c.Whitelist
}
