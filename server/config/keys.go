package config

import "strings"

// treatment says what happens to a key.
type treatment uint8

const (
	act    treatment = iota + 1 // obeyed
	note                        // accepted, has no counterpart here: one line says so
	later                       // accepted, its feature is not in this version: one line says so
	refuse                      // stop: ignoring it would serve with less protection or other quorum rules
	danger                      // harmless while off; refused when switched on
)

// keyInfo is one row of the table (spec operations 1.1 and 1.2).
type keyInfo struct {
	treatment treatment
	why       string
}

// keys lists every key by its bare name, without a "zookeeper." prefix: Java accepts a property in the file with or
// without it, so both spellings mean the same here. Families (server.N, group.N, weight.N, authProvider.N) are
// handled by prefix.
var keys = map[string]keyInfo{
	"dataDir":              {treatment: act},
	"dataLogDir":           {treatment: act},
	"clientPort":           {treatment: act},
	"clientPortAddress":    {treatment: act},
	"tickTime":             {treatment: act},
	"initLimit":            {treatment: act},
	"syncLimit":            {treatment: act},
	"silenceLimit":         {treatment: act}, // ours
	"minSessionTimeout":    {treatment: act},
	"maxSessionTimeout":    {treatment: act},
	"maxClientCnxns":       {treatment: act},
	"maxCnxns":             {treatment: act},
	"electionAlg":          {treatment: act},
	"peerType":             {treatment: act},
	"dynamicConfigFile":    {treatment: act},
	"standaloneEnabled":    {treatment: act},
	"quorumListenOnAllIPs": {treatment: act},
	"version":              {treatment: act},

	"4lw.commands.whitelist":                   {treatment: act},
	"commitLogCount":                           {treatment: act},
	"forceSync":                                {treatment: act},
	"fsync.warningthresholdms":                 {treatment: act},
	"jute.maxbuffer":                           {treatment: act},
	"globalOutstandingLimit":                   {treatment: act},
	"skipACL":                                  {treatment: act},
	"extendedTypesEnabled":                     {treatment: act},
	"DigestAuthenticationProvider.superDigest": {treatment: act},
	"X509AuthenticationProvider.superUser":     {treatment: act},
	"letAnySaslUserDoX":                        {treatment: act},
	"enforceQuota":                             {treatment: act},
	"ensembleAuthName":                         {treatment: act},
	"enforce.auth.enabled":                     {treatment: act},
	"enforce.auth.schemes":                     {treatment: act},
	"znode.container.checkIntervalMs":          {treatment: act},
	"znode.container.maxPerMinute":             {treatment: act},
	"znode.container.maxNeverUsedIntervalMs":   {treatment: act},

	"clientPortListenBacklog":                 {note, "the operating system's limit is used"},
	"connectToLearnerMasterLimit":             {note, "initLimit is used"},
	"syncEnabled":                             {note, "observers always keep their log"},
	"autopurge.snapRetainCount":               {note, "there are no snapshots to purge: the log is cut behind the durable state"},
	"autopurge.purgeInterval":                 {note, "there are no snapshots to purge: the log is cut behind the durable state"},
	"snapCount":                               {note, "the state is stored continuously"},
	"snapSizeLimitInKb":                       {note, "the state is stored continuously"},
	"txnLogSizeLimitInKb":                     {note, "the log has no files to roll"},
	"preAllocSize":                            {note, "the log is not preallocated by size"},
	"jute.maxbuffer.extrasize":                {note, "stored data has no such limit"},
	"request_throttle_max_requests":           {note, "back pressure is built in"},
	"request_throttle_stall_time":             {note, "back pressure is built in"},
	"request_throttle_drop_stale":             {note, "back pressure is built in"},
	"flushDelay":                              {note, "one sync covers everything that waits"},
	"maxBatchSize":                            {note, "one sync covers everything that waits"},
	"maxWriteQueuePollTime":                   {note, "one sync covers everything that waits"},
	"nio.numSelectorThreads":                  {note, "no such threads"},
	"nio.numWorkerThreads":                    {note, "no such threads"},
	"nio.sessionlessCnxnTimeout":              {note, "fixed at 10 s"},
	"commitProcessor.numWorkerThreads":        {note, "no such threads"},
	"serverCnxnFactory":                       {note, "there is one implementation"},
	"leader.nodelay":                          {note, "TCP_NODELAY is always on"},
	"follower.nodelay":                        {note, "TCP_NODELAY is always on"},
	"electionPortBindRetry":                   {note, "the election port is not bound"},
	"cnxTimeout":                              {note, "links between servers have their own limits"},
	"tcpKeepAlive":                            {note, "keepalive is always on"},
	"clientTcpKeepAlive":                      {note, "keepalive is always on"},
	"digest.enabled":                          {note, "digests are always kept"},
	"snapshot.compression.method":             {note, "there are no snapshot files"},
	"snapshot.trust.empty":                    {note, "there are no snapshot files"},
	"serializeLastProcessedZxid.enabled":      {note, "there are no snapshot files"},
	"fips-mode":                               {note, "no effect"},
	"multiAddress.enabled":                    {note, "several addresses are always accepted"},
	"multiAddress.reachabilityCheckEnabled":   {note, "addresses are tried at every dial"},
	"multiAddress.reachabilityCheckTimeoutMs": {note, "addresses are tried at every dial"},
	"quorum.cnxn.threads.size":                {note, "no such threads"},
	"quorum.auth.learner.loginContext":        {note, "no SASL between servers"},
	"quorum.auth.server.loginContext":         {note, "no SASL between servers"},
	"quorum.auth.kerberos.servicePrincipal":   {note, "no SASL between servers"},
	"jvm.pause.monitor":                       {note, "there is no JVM"},
	"jvm.pause.warn-threshold.ms":             {note, "there is no JVM"},
	"jvm.pause.info-threshold.ms":             {note, "there is no JVM"},
	"jvm.pause.sleep.time.ms":                 {note, "there is no JVM"},
	"metricsProvider.exportJvmInfo":           {note, "there is no JVM"},
	"metricsProvider.numWorkerThreads":        {note, "no such threads"},
	"metricsProvider.maxQueueSize":            {note, "no such queue"},
	"metricsProvider.workerShutdownTimeoutMs": {note, "no such threads"},
	"watchManagerName":                        {note, "there is one implementation"},
	"closeSessionTxn.enabled":                 {note, "no effect"},
	"largeRequestThreshold":                   {note, "requests are bounded a connection"},
	"largeRequestMaxBytes":                    {note, "requests are bounded a connection"},
	"throttled_op_wait_time":                  {note, "back pressure is built in"},
	"connection_throttle_tokens":              {note, "connections are bounded by maxCnxns and maxClientCnxns"},

	"secureClientPort":              {later, "no TLS port is opened"},
	"secureClientPortAddress":       {later, "no TLS port is opened"},
	"client.portUnification":        {later, "no TLS on the client port"},
	"portUnification":               {later, "links between servers are plain"},
	"sslQuorumReloadCertFiles":      {later, "links between servers are plain"},
	"observerMasterPort":            {later, "observers connect to the leader"},
	"localSessionsEnabled":          {later, "all sessions are global"},
	"localSessionsUpgradingEnabled": {later, "all sessions are global"},
	"reconfigEnabled":               {later, "reconfig is answered as disabled"},
	"readonlymode.enabled":          {later, "a server without a quorum serves nobody"},
	"leaderServes":                  {later, "the leader serves clients"},
	"enableEagerACLCheck":           {later, "permissions are checked by the leader"},
	"db.autocreate":                 {later, "a blank server joins as a blank"},
	"datadir.autocreate":            {later, "missing directories are made"},
	"metricsProvider.className":     {later, "no metrics port is opened"},
	"metricsProvider.httpHost":      {later, "no metrics port is opened"},
	"metricsProvider.httpPort":      {later, "no metrics port is opened"},
	"admin.enableServer":            {later, "no HTTP port is opened"},
	"admin.serverPort":              {later, "no HTTP port is opened"},
	"admin.serverAddress":           {later, "no HTTP port is opened"},
	"admin.commandURL":              {later, "no HTTP port is opened"},
	"admin.idleTimeout":             {later, "no HTTP port is opened"},
	"admin.portUnification":         {later, "no HTTP port is opened"},
	"admin.forceHttps":              {later, "no HTTP port is opened"},
	"admin.needClientAuth":          {later, "no HTTP port is opened"},
	"admin.rateLimiterIntervalInMS": {later, "no HTTP port is opened"},
	"admin.snapshot.enabled":        {later, "no HTTP port is opened"},
	"admin.restore.enabled":         {later, "no HTTP port is opened"},
	"audit.enable":                  {later, "no audit log is written"},
	"audit.impl.class":              {later, "no audit log is written"},
	"superUser":                     {later, "SASL and x509 are not offered"},
	"allowSaslFailedClients":        {later, "SASL is not offered"},

	"sslQuorum":                              {danger, "TLS between servers is not in this version; links would be plain"},
	"sessionRequireClientSASLAuth":           {danger, "SASL is not in this version; anybody could connect"},
	"quorum.auth.enableSasl":                 {danger, "SASL between servers is not supported; links would be unauthenticated"},
	"quorum.auth.learnerRequireSasl":         {danger, "SASL between servers is not supported; links would be unauthenticated"},
	"quorum.auth.serverRequireSasl":          {danger, "SASL between servers is not supported; links would be unauthenticated"},
	"emulate353TTLNodes":                     {danger, "the TTL encoding of 3.5.3 is not supported"},
	"oraclePath":                             {refuse, "an oracle changes the rules of the quorum and is not supported"},
	"DigestAuthenticationProvider.digestAlg": {refuse, "only SHA1 is supported"},
	"DigestAuthenticationProvider.enabled":   {refuse, "the scheme digest cannot be switched off in this version"},
}

// builtinProviders are the schemes of the classes of authProvider.N that are known; any other class is refused because
// ids of its scheme would never match.
var builtinProviders = map[string]string{
	"org.apache.zookeeper.server.auth.DigestAuthenticationProvider":   "digest",
	"org.apache.zookeeper.server.auth.IPAuthenticationProvider":       "ip",
	"org.apache.zookeeper.server.auth.SASLAuthenticationProvider":     "sasl",
	"org.apache.zookeeper.server.auth.X509AuthenticationProvider":     "x509",
	"org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider": "ensemble",
}

// lookup finds a key in its bare or its zookeeper. spelling; ssl.* and commitProcessor.* are families.
func lookup(key string) (string, keyInfo, bool) {
	bare := strings.TrimPrefix(key, "zookeeper.")
	if k, ok := keys[bare]; ok {
		return bare, k, true
	}
	switch {
	case strings.HasPrefix(bare, "ssl."):
		return bare, keyInfo{later, "no TLS is offered"}, true
	case strings.HasPrefix(bare, "commitProcessor."):
		return bare, keyInfo{note, "no such threads"}, true
	case strings.HasPrefix(bare, "superUser."):
		return bare, keyInfo{later, "SASL and x509 are not offered"}, true
	}
	return bare, keyInfo{}, false
}

// nearest is the known key most like an unknown one, or "" when none is near.
func nearest(key string) string {
	best, bestDistance := "", len(key)/3+1
	key = strings.ToLower(key)
	for k := range keys {
		if len(key)-len(k) > bestDistance {
			continue // as far as that at least; and a key of a megabyte would take seconds
		}
		d := distance(key, strings.ToLower(k))
		if d < bestDistance || d == bestDistance && best != "" && k < best {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(row[j]+1, row[j-1]+1, cost)
		}
	}
	return row[len(b)]
}
