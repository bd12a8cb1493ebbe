package main

import (
	"strings"

	"github.com/zkserver/zkserver/client"
)

// permLetters are in the order in which zkCli prints them.
var permLetters = []struct {
	bit    int32
	letter byte
}{
	{client.PermCreate, 'c'}, {client.PermDelete, 'd'}, {client.PermRead, 'r'}, {client.PermWrite, 'w'}, {client.PermAdmin, 'a'},
}

// parseACL reads scheme:id:perms[,scheme:id:perms...]; an id may contain colons.
func parseACL(s string) ([]client.ACL, error) {
	var list []client.ACL
	for part := range strings.SplitSeq(s, ",") {
		first, last := strings.IndexByte(part, ':'), strings.LastIndexByte(part, ':')
		if first < 0 || first == last {
			return nil, usagef("Acl is not valid : %s does not have the form scheme:id:perm", part)
		}
		perms, err := parsePerms(part[last+1:])
		if err != nil {
			return nil, err
		}
		list = append(list, client.ACL{Perms: perms, Scheme: part[:first], ID: part[first+1 : last]})
	}
	return list, nil
}

func parsePerms(s string) (int32, error) {
	var perms int32
letters:
	for i := range len(s) {
		for _, p := range permLetters {
			if s[i] == p.letter {
				perms |= p.bit
				continue letters
			}
		}
		return 0, usagef("Acl is not valid : unknown permission %q, want some of cdrwa", s[i])
	}
	return perms, nil
}

func formatPerms(perms int32) string {
	var b []byte
	for _, p := range permLetters {
		if perms&p.bit != 0 {
			b = append(b, p.letter)
		}
	}
	return string(b)
}
