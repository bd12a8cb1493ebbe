package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkserver/zkserver/client"
)

// ensemble is one that the configuration file names.
type ensemble struct {
	name, server, timeout, wire string
	auth                        []string
	readOnly                    bool
}

// ensembles are what the configuration file has.
type ensembles struct {
	byDefault string // name of the one that is meant where none is said; may be empty
	list      []ensemble
}

// configExample is what people see who have no such file yet.
const configExample = `  default = test        # used where no -server is given

  [test]
  server = localhost:2181

  [prod]
  server = zk1:2181,zk2:2181,zk3:2181/app
  # credentials may be repeated; nobody else may read a file that has any
  auth = digest:user:password
  timeout = 10000
  wire = grpc
  read-only = true`

// configFile is $ZKCLI_CONFIG, or zkcli/ensembles where the user's configuration is by the XDG rules. Empty: there is no such place.
func configFile(getenv func(string) string) string {
	if f := getenv("ZKCLI_CONFIG"); f != "" {
		return f
	}
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the rules say that such a one is to be ignored
		if dir = getenv("HOME"); dir == "" {
			return ""
		}
		dir = filepath.Join(dir, ".config")
	}
	return filepath.Join(dir, "zkcli", "ensembles")
}

// readEnsembles reads the configuration. That there is none is no error.
func readEnsembles(file string) (ensembles, error) {
	var all ensembles
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return all, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return all, err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if why := all.line(strings.TrimSpace(line)); why != "" {
			return all, usagef("%s:%d: %s", file, n, why)
		}
	}
	for _, e := range all.list {
		switch {
		case e.server == "":
			return all, usagef("%s: [%s] has no line server = host:port[,host:port...][/chroot]", file, e.name)
		case e.auth != nil && st.Mode().Perm()&0o077 != 0:
			return all, usagef("%s: [%s] has credentials, and others may read the file: chmod 600 %s", file, e.name, file)
		}
	}
	if all.byDefault != "" && all.find(all.byDefault) == nil {
		return all, usagef("%s: default = %s is none of: %s", file, all.byDefault, strings.Join(all.names(), ", "))
	}
	return all, nil
}

// line takes one line, and says what is wrong with it and what is allowed.
func (all *ensembles) line(line string) (why string) {
	if line == "" || line[0] == '#' || line[0] == ';' {
		return ""
	}
	if line[0] == '[' {
		name, found := strings.CutSuffix(line[1:], "]")
		switch {
		case !found || name == "" || strings.ContainsAny(name, " \t/@,:[]"):
			return line + ": want [NAME], a name without blanks and / @ , :"
		case all.find(name) != nil:
			return "there is a [" + name + "] already"
		}
		all.list = append(all.list, ensemble{name: name})
		return ""
	}
	key, value, found := strings.Cut(line, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if i := strings.Index(value, " #"); i >= 0 && key != "auth" {
		value = strings.TrimSpace(value[:i])
	}
	if !found || value == "" {
		return key + ": want KEY = VALUE or [NAME]" // not all of it: there may be a password behind it
	}
	if len(all.list) == 0 {
		if key != "default" {
			return key + " stands before the first [NAME]: there only default = NAME is allowed"
		}
		all.byDefault = value
		return ""
	}
	return all.list[len(all.list)-1].set(key, value)
}

// set takes one key of an ensemble.
func (e *ensemble) set(key, value string) (why string) {
	var err error
	switch key {
	case "server":
		e.server = value
		_, _, err = client.ParseConnect(value)
	case "auth":
		e.auth = append(e.auth, value)
		_, err = parseAuth(value)
	case "timeout":
		e.timeout = value
		_, err = parseTimeout(value)
	case "wire":
		e.wire = value
		_, err = parseWire(value)
	case "read-only":
		e.readOnly = value == "true"
		if value != "true" && value != "false" {
			return "read-only = " + value + ": want true or false"
		}
	default:
		return key + " is not known; allowed are server, auth, timeout, wire and read-only"
	}
	if err != nil {
		return key + ": " + err.Error()
	}
	return ""
}

func (all *ensembles) find(name string) *ensemble {
	for i := range all.list {
		if all.list[i].name == name {
			return &all.list[i]
		}
	}
	return nil
}

func (all *ensembles) names() []string {
	var out []string
	for _, e := range all.list {
		out = append(out, e.name)
	}
	slices.Sort(out)
	return out
}

// choose takes servers, or those and the settings of the named ensemble as far as no flag has set them.
func (o *options) choose(server string) error {
	if server != "" && server[0] != '@' {
		o.server = server
		return nil
	}
	all, err := readEnsembles(o.file)
	if err != nil {
		return err
	}
	name, path, below := strings.Cut(strings.TrimPrefix(server, "@"), "/")
	if server == "" {
		if all.byDefault == "" {
			return nil
		}
		name = all.byDefault
	}
	e := all.find(name)
	switch {
	case o.file == "":
		return usagef("@%s: neither ZKCLI_CONFIG nor XDG_CONFIG_HOME nor HOME is set, so there is no configuration file", name)
	case e == nil && all.list == nil:
		return usagef("@%s: %s names no ensemble. It may have, for example:\n%s", name, o.file, configExample)
	case e == nil:
		return usagef("@%s: %s names only: %s", name, o.file, strings.Join(all.names(), ", "))
	}
	o.name, o.server = "@"+name, e.server
	if below {
		o.name += "/" + path
		o.server = strings.TrimSuffix(e.server, "/") + "/" + path
	}
	// The values have been looked at when the file was read.
	if e.timeout != "" && !o.given["timeout"] {
		o.timeout, _ = parseTimeout(e.timeout)
	}
	if e.wire != "" && !o.given["wire"] {
		o.wire, _ = parseWire(e.wire)
	}
	if e.auth != nil && !o.given["auth"] {
		o.auth = nil
		for _, a := range e.auth {
			auth, _ := parseAuth(a)
			o.auth = append(o.auth, auth)
		}
	}
	o.readOnly = o.readOnly || e.readOnly
	return nil
}

// listEnsembles prints what the configuration file has, without credentials.
func listEnsembles(_ context.Context, s *session, _ *invocation) error {
	all, err := readEnsembles(s.o.file)
	if err != nil {
		return err
	}
	if s.p.format == jsonFormat {
		type entry struct {
			Name    string `json:"name"`
			Server  string `json:"server"`
			Default bool   `json:"default"`
		}
		list := []entry{}
		for _, e := range all.list {
			list = append(list, entry{e.name, e.server, e.name == all.byDefault})
		}
		s.p.value(map[string]any{"file": s.o.file, "ensembles": list})
		return nil
	}
	if all.list == nil {
		s.p.note("%s names no ensemble. It may have, for example:\n%s", s.o.file, configExample)
		return nil
	}
	rows := [][]cell{{{text: "NAME"}, {text: "SERVER"}, {text: "DEFAULT"}}}
	for _, e := range all.list {
		mark := ""
		if e.name == all.byDefault {
			mark = "yes"
		}
		rows = append(rows, []cell{{text: "@" + e.name, colour: blue}, {text: e.server}, {text: mark}})
	}
	s.p.table(rows)
	return nil
}
