// Command run plants every mutation of testdata/mutations in turn and lets those who must find it look for it: the
// explorer, the simulator, the scenario tests of the cores and the machine. It prints a table and fails when one survives. Run it at the root
// of the module: go run ./server/sim/mutation/run [-only name] [-by explorer] [-into docs/correctness.md]
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
	times := flag.Int("times", 5, "how often the simulator finds a fault, each time from the next seed on; the median is told")
	limit := flag.Duration("limit", 10*time.Minute, "bound of each search")
	into := flag.String("into", "", "a page whose table takes the results over; rows of what is not run stay")
	flag.Parse()
	r := runner{root: ".", states: *states, seeds: *seeds, times: *times, limit: *limit, into: *into, out: os.Stdout}
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
	root                 string
	states, seeds, times int
	limit                time.Duration
	into                 string
	out                  io.Writer
}

// result is what one finder made of one fault.
type result struct {
	caught string // how it showed; empty: not at all
	after  string
}

func (r *runner) all(only, by string) (survived int, err error) {
	all, err := mutation.Load(os.DirFS(filepath.Join(r.root, "testdata/mutations")))
	if err != nil {
		return 0, err
	}
	commit, err := r.command(context.Background(), "git", "rev-parse", "--short", "HEAD")
	if err != nil {
		return 0, fmt.Errorf("which commit this is: %w", err)
	}
	at := time.Now().Format(time.DateOnly) + " " + strings.TrimSpace(string(commit))
	fmt.Fprint(r.out, mutation.TableHead)
	for _, m := range all {
		if only != "" && !slices.ContainsFunc(strings.Split(only, ","), func(p string) bool { return strings.HasPrefix(m.Name, p) }) {
			continue
		}
		for _, f := range m.By {
			if by != "" && by != f {
				continue
			}
			found, err := r.find(m, f)
			if err != nil {
				return survived, fmt.Errorf("mutation %s, %s: %w", m.Name, f, err)
			}
			if found.caught == "" {
				survived++
				found.caught = mutation.Survived
			}
			row := mutation.Row{Finder: f, Caught: found.caught, After: found.after, At: at}
			fmt.Fprint(r.out, m.Line(row))
			if r.into != "" {
				if err := r.keep(all, m.Name, row); err != nil {
					return survived, err
				}
			}
		}
	}
	return survived, nil
}

// keep puts a row into the page's table at once: a long run that is ended has not been for nothing.
func (r *runner) keep(all []mutation.Mutation, name string, row mutation.Row) error {
	page, err := os.ReadFile(filepath.Clean(r.into))
	if err != nil {
		return err
	}
	page, err = mutation.Into(page, all, name, row)
	if err != nil {
		return fmt.Errorf("%s: %w", r.into, err)
	}
	return os.WriteFile(filepath.Clean(r.into), page, 0o644)
}

var verdict = regexp.MustCompile(`(?m)^MUTANT (caught|survived) after=(\d+) ?(.*)$`)

// find lets one finder look for a planted fault.
func (r *runner) find(m mutation.Mutation, finder string) (result, error) {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.Overlay(r.root, dir)
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.limit)
	defer cancel()
	if finder == "scenarios" {
		return r.scenarios(ctx, overlay)
	}
	pkg := map[string]string{"explorer": "./server/sim/explore", "simulator": "./server/sim"}[finder]
	binary := filepath.Join(dir, "finder")
	out, err := r.command(ctx, "go", "test", "-c", "-vet", "off", "-ldflags", "-s -w", "-overlay", overlay, "-o", binary, pkg)
	switch {
	case ctx.Err() != nil:
		return result{after: "out of time"}, nil
	case err != nil:
		return result{}, fmt.Errorf("%w\n%s", err, out)
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestMutant$", "-test.v", "-test.timeout", "0")
	cmd.Dir = filepath.Join(r.root, pkg)
	var files []string
	for _, e := range m.Edits {
		files = append(files, e.File)
	}
	cmd.Env = append(os.Environ(), "ZKSERVER_MUTANT="+m.Name, "ZKSERVER_MUTANT_FILES="+strings.Join(files, ","),
		"ZKSERVER_MUTANT_STATES="+strconv.Itoa(r.states), "ZKSERVER_MUTANT_SEEDS="+strconv.Itoa(r.seeds), "ZKSERVER_MUTANT_TIMES="+strconv.Itoa(r.times))
	out, err = cmd.CombinedOutput()
	v := verdict.FindAllSubmatch(out, -1)
	switch {
	case v == nil && ctx.Err() != nil:
		return result{after: "out of time"}, nil
	case v == nil:
		return result{}, fmt.Errorf("no verdict: %w\n%s", err, out)
	case string(v[0][1]) == "survived":
		return result{after: string(v[0][2])}, nil
	}
	return found(v, map[string]string{"explorer": "states", "simulator": "seeds"}[finder]), nil
}

// found tells how a fault showed the first time, and how much was needed for that: the median of all times.
func found(v [][][]byte, unit string) result {
	var after []int
	for _, x := range v {
		n, err := strconv.Atoi(string(x[2]))
		if err != nil {
			continue // the pattern lets digits through only: it is too large
		}
		after = append(after, n)
	}
	slices.Sort(after)
	text := fmt.Sprintf("%d %s", after[len(after)/2], unit)
	if len(after) > 1 {
		text += fmt.Sprintf(" (%d to %d, %d times)", after[0], after[len(after)-1], len(after))
	}
	return result{caught: string(v[0][3]), after: text}
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// scenarios runs the tests of the cores, and of the machine around them, but for those that draw their schedules at random or
// need a clock.
func (r *runner) scenarios(ctx context.Context, overlay string) (result, error) {
	test := func(args ...string) ([]byte, error) {
		return r.command(ctx, "go", append([]string{"test", "-overlay", overlay, "-vet", "off"}, args...)...)
	}
	out, err := test("-skip", "^(TestExplore|TestRandom|TestPartial|TestDeterminism)$", "./zab", "./election")
	if err == nil {
		out, err = test("-run", "^(TestScenarios|TestSyncWatch)$", "./server/replica")
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return result{after: "all tests"}, nil
	case ctx.Err() != nil:
		return result{after: "out of time"}, nil
	case !errors.As(err, &exit) || bytes.Contains(out, []byte("[build failed]")):
		return result{}, fmt.Errorf("%w\n%s", err, out)
	}
	names := failed.FindAllSubmatch(out, -1)
	if len(names) == 0 {
		return result{caught: "a panic", after: "the tests"}, nil
	}
	return result{caught: string(names[len(names)-1][1]), after: fmt.Sprintf("%d tests", len(names))}, nil
}

func (r *runner) command(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.root
	return cmd.CombinedOutput()
}
