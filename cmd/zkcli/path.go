package main

import "strings"

// checkPath says what is wrong with a path before it is sent, in zkCli's words.
func checkPath(p string) error {
	bad := func(why string, at int) error { return usagef("Invalid path string %q caused by %s @%d", p, why, at) }
	switch {
	case p == "":
		return usagef("Path length must be > 0")
	case p[0] != '/':
		return usagef("Path must start with / character")
	case p == "/":
		return nil
	case strings.HasSuffix(p, "/"):
		return usagef("Path must not end with / character")
	}
	at := 0
	for part := range strings.SplitSeq(p[1:], "/") {
		at += len(part) + 1
		switch {
		case strings.ContainsRune(part, 0):
			return bad("null character not allowed", at-len(part)+strings.IndexByte(part, 0))
		case part == "":
			return bad("empty node name specified", at)
		case part == "." || part == "..":
			return bad("relative paths not allowed", at-1)
		}
	}
	return nil
}

// join is the path of a child.
func join(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}
