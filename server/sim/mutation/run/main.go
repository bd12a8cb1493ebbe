// Command run plants every mutation of testdata/mutations in turn and lets those who must find it look for it: the
// explorer, the simulator, the cores' scenario tests. It prints a table and fails when one survives. Run it at the root
// of the module: go run ./server/sim/mutation/run [-only name] [-by explorer]
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkserver/zkserver/server/sim/mutation"
)

func main() {
	only := flag.String("only", "", "names (or their beginnings) of the mutations to run, comma separated")
	by := flag.String("by", "", "this finder only")
	states := flag.Int("states", 400_000, "the explorer's bound, in each of its worlds")
	seeds := flag.Int("seeds", 20_000, "the simulator's bound")
	limit := flag.Duration("limit", 10*time.Minute, "bound of each search")
	flag.Parse()
	r := runner{root: ".", states: *states, seeds: *seeds, limit: *limit, out: os.Stdout}
	survived, err := r.all(*only, *by)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if survived > 0 {
		fmt.Fprintf(os.Stderr, "%d not caught\n", survived)
		os.Exit(1)
	}
}

type runner struct {
	root          string
	states, seeds int
	limit         time.Duration
	out           io.Writer
}

func (r *runner) all(only, by string) (survived int, err error) {
	all, err := mutation.Load(os.DirFS(filepath.Join(r.root, "testdata/mutations")))
	if err != nil {
		return 0, err
	}
	fmt.Fprintln(r.out, "| fault | rule | what | finder | caught by | after |")
	fmt.Fprintln(r.out, "|---|---|---|---|---|---|")
	for _, m := range all {
		if only != "" && !slices.ContainsFunc(strings.Split(only, ","), func(p string) bool { return strings.HasPrefix(m.Name, p) }) {
			continue
		}
		for _, f := range m.By {
			if by != "" && by != f {
				continue
			}
			caught, after, err := r.find(m, f)
			if err != nil {
				return survived, fmt.Errorf("mutation %s, %s: %w", m.Name, f, err)
			}
			if caught == "" {
				survived++
				caught = "**nobody**"
			}
			fmt.Fprintf(r.out, "| %s | %s | %s | %s | %s | %s |\n", m.Name, m.Rule, m.What, f, strings.ReplaceAll(caught, "|", "/"), after)
		}
	}
	return survived, nil
}

var verdict = regexp.MustCompile(`(?m)^MUTANT (caught|survived) after=(\d+) ?(.*)$`)

// find lets one finder look for a planted fault.
func (r *runner) find(m mutation.Mutation, finder string) (caught, after string, err error) {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return "", "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.Overlay(r.root, dir)
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.limit)
	defer cancel()
	if finder == "scenarios" {
		return r.scenarios(ctx, overlay)
	}
	pkg := map[string]string{"explorer": "./server/sim/explore", "simulator": "./server/sim"}[finder]
	binary := filepath.Join(dir, "finder")
	out, err := r.command(ctx, "go", "test", "-c", "-vet", "off", "-overlay", overlay, "-o", binary, pkg)
	switch {
	case ctx.Err() != nil:
		return "", "out of time", nil
	case err != nil:
		return "", "", fmt.Errorf("%w\n%s", err, out)
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestMutant$", "-test.v", "-test.timeout", "0")
	cmd.Dir = filepath.Join(r.root, pkg)
	var files []string
	for _, e := range m.Edits {
		files = append(files, e.File)
	}
	cmd.Env = append(os.Environ(), "ZKSERVER_MUTANT="+m.Name, "ZKSERVER_MUTANT_FILES="+strings.Join(files, ","), "ZKSERVER_MUTANT_STATES="+strconv.Itoa(r.states), "ZKSERVER_MUTANT_SEEDS="+strconv.Itoa(r.seeds))
	out, err = cmd.CombinedOutput()
	v := verdict.FindSubmatch(out)
	switch {
	case v == nil && ctx.Err() != nil:
		return "", "out of time", nil
	case v == nil:
		return "", "", fmt.Errorf("no verdict: %w\n%s", err, out)
	case string(v[1]) == "survived":
		return "", string(v[2]), nil
	}
	unit := map[string]string{"explorer": " states", "simulator": " seeds"}[finder]
	return string(v[3]), string(v[2]) + unit, nil
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// scenarios runs the cores' own tests but for those that draw their schedules at random.
func (r *runner) scenarios(ctx context.Context, overlay string) (caught, after string, err error) {
	out, err := r.command(ctx, "go", "test", "-overlay", overlay, "-vet", "off", "-skip", "^(TestExplore|TestRandom|TestPartial|TestDeterminism)$", "./zab", "./election")
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", "all tests", nil
	case ctx.Err() != nil:
		return "", "out of time", nil
	case !errors.As(err, &exit) || bytes.Contains(out, []byte("[build failed]")):
		return "", "", fmt.Errorf("%w\n%s", err, out)
	}
	names := failed.FindAllSubmatch(out, -1)
	if len(names) == 0 {
		return "a panic", "the tests", nil
	}
	return string(names[len(names)-1][1]), fmt.Sprintf("%d tests", len(names)), nil
}

func (r *runner) command(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.root
	return cmd.CombinedOutput()
}
