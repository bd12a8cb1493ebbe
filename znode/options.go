package znode

// Options is what the configuration says to the tree. It must be the same on every server of an ensemble.
type Options struct {
	// ExtendedTypes allows TTL nodes (zookeeper.extendedTypesEnabled). Default off: createTTL is unimplemented and a
	// stored TTL owner counts as a session.
	ExtendedTypes bool

	// SkipACL allows everything to everybody (skipACL=yes). Lists are still checked for form when they are set.
	SkipACL bool

	// EnforceQuota makes the hard limits of quotas count (zookeeper.enforceQuota). What is used is counted in any case.
	EnforceQuota bool

	// X509 and SASL offer these schemes in access lists (authProvider.N names their providers). Without, entries of them
	// are refused and match nobody.
	X509, SASL bool
	// X509SuperUser is the x509 id that every x509 entry matches (X509AuthenticationProvider.superUser). Empty: none.
	X509SuperUser string
	// AnySASLUser is the id whose sasl entries every sasl user matches (letAnySaslUserDoX). Empty: none.
	AnySASLUser string

	// SuperDigest is the digest id "user:base64" of the super user
	// (zookeeper.DigestAuthenticationProvider.superDigest). Empty: there is none.
	SuperDigest string
}
