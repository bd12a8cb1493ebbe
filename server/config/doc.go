// Package config turns a zoo.cfg, the flags and the environment into one validated Config. It reads files and
// nothing else; it imports the standard library and zab's value types. Begin at config.go; keys.go is the table of
// every key, members.go the grammar of server.N, properties.go the file format.
package config
