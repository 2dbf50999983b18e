// Package dockerfile checks a Dockerfile without a container engine: with the parser and the linter of docker's own builder, and for
// what our images promise.
package dockerfile

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// Target is a stage that no other stage uses, so that an image is made of it.
type Target struct {
	Name, User string
	Entrypoint []string
	Ports      []string // sorted as texts
}

// Problem is an error and its line.
type Problem struct {
	Line int
	Text string
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Text) }

// secret matches the names of variables for passwords and keys. Everyone who has an image can read its variables.
var secret = regexp.MustCompile(`(?i)(password|passwd|secret|token|credential|private_?key|api_?key)`)

// Check returns the targets of a Dockerfile, and its problems by line. The error is that it can't be read at all.
func Check(text []byte) ([]Target, []Problem, error) {
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, nil, fmt.Errorf("parse: %w", err)
	}
	c := &check{arguments: map[string]string{}, stages: map[string]*stage{}}
	for _, w := range parsed.Warnings {
		c.add(location(w.Location), "%s", w.Short)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, text string, at []parser.Range) { c.add(at, "%s (%s)", text, rule) }})
	stages, arguments, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		return nil, nil, fmt.Errorf("read the instructions: %w", err)
	}
	for _, a := range arguments {
		c.declare(a)
	}
	for i := range stages {
		c.stage(&stages[i])
	}
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return c.targets(), c.problems, nil
}

// check is the state of a check.
type check struct {
	arguments map[string]string // those before the first stage, with their defaults
	stages    map[string]*stage
	order     []*stage
	problems  []Problem
}

// stage is the state of a stage, with what it inherits from the stage that it is made from.
type stage struct {
	Target
	location []parser.Range
	used     bool
}

func location(r *parser.Range) []parser.Range {
	if r == nil {
		return nil
	}
	return []parser.Range{*r}
}

// add adds a problem.
func (c *check) add(at []parser.Range, format string, args ...any) {
	line := 0
	if len(at) > 0 {
		line = at[0].Start.Line
	}
	c.problems = append(c.problems, Problem{line, fmt.Sprintf(format, args...)})
}

// declare takes the arguments of an ARG before the first stage.
func (c *check) declare(a instructions.ArgCommand) {
	for _, kv := range a.Args {
		if secret.MatchString(kv.Key) {
			c.add(a.Location(), "the argument %s looks like a secret, and everybody who has the image reads it", kv.Key)
		}
		if kv.Value == nil {
			c.add(a.Location(), "the argument %s has no default, so that nothing is built without it", kv.Key)
			continue
		}
		c.arguments[kv.Key] = *kv.Value
	}
}

// stage checks a stage.
func (c *check) stage(s *instructions.Stage) {
	now := &stage{Target: Target{Name: s.Name}, location: s.Location}
	if base := c.from(s.BaseName, s.Location, true); base != nil {
		now.User, now.Entrypoint, now.Ports = base.User, base.Entrypoint, slices.Clone(base.Ports)
	}
	for _, command := range s.Commands {
		c.command(now, command)
	}
	name := strings.ToLower(s.Name)
	switch {
	case name == "":
	case c.stages[name] != nil:
		c.add(s.Location, "there are two stages %s", s.Name)
	default:
		c.stages[name] = now
	}
	c.order = append(c.order, now)
}

// from returns the stage that a name refers to, or nil for an image, whose name it checks. A number is a stage where images are not
// counted.
func (c *check) from(name string, at []parser.Range, image bool) *stage {
	expanded, err := shell.NewLex('\\').ProcessWordWithMatches(name, arguments(c.arguments))
	if err != nil {
		c.add(at, "%q: %v", name, err)
		return nil
	}
	for variable := range expanded.Unmatched {
		c.add(at, "%s is used, and no ARG before the first stage has it", variable)
	}
	name = expanded.Result
	if s := c.stages[strings.ToLower(name)]; s != nil {
		s.used = true
		return s
	}
	if n, err := strconv.Atoi(name); err == nil && !image {
		if n < len(c.order) {
			c.order[n].used = true
			return c.order[n]
		}
		c.add(at, "there is no stage %d before this one", n)
		return nil
	}
	base := name[strings.LastIndex(name, "/")+1:]
	switch _, tag, tagged := strings.Cut(base, ":"); {
	case name == "scratch", strings.Contains(base, "@"), len(expanded.Unmatched) > 0:
	case !tagged, tag == "latest":
		c.add(at, "%s is neither an earlier stage nor an image with a tag, so that it changes by itself", name)
	}
	return nil
}

// arguments are the variables of FROM.
type arguments map[string]string

// Get returns the value of a variable.
func (a arguments) Get(key string) (string, bool) { v, ok := a[key]; return v, ok }

// Keys returns the names of the variables.
func (a arguments) Keys() []string {
	var keys []string
	for key := range a {
		keys = append(keys, key)
	}
	return keys
}

// command checks an instruction of a stage, and applies it to the state.
func (c *check) command(now *stage, command instructions.Command) {
	switch i := command.(type) {
	case *instructions.UserCommand:
		now.User = i.User
	case *instructions.EntrypointCommand:
		if i.PrependShell {
			c.add(i.Location(), "ENTRYPOINT without brackets runs a shell, which keeps signals from the program")
		}
		now.Entrypoint = i.CmdLine
	case *instructions.CmdCommand:
		if i.PrependShell {
			c.add(i.Location(), "CMD without brackets runs a shell, which keeps signals from the program")
		}
	case *instructions.ExposeCommand:
		now.Ports = append(now.Ports, i.Ports...)
	case *instructions.WorkdirCommand:
		if !path.IsAbs(i.Path) && !strings.HasPrefix(i.Path, "$") {
			c.add(i.Location(), "WORKDIR %s is below whatever folder comes before", i.Path)
		}
	case *instructions.CopyCommand:
		if i.From != "" {
			c.from(i.From, i.Location(), false)
		}
	case *instructions.AddCommand:
		for _, source := range i.SourcePaths {
			if strings.Contains(source, "://") && i.Checksum == "" {
				c.add(i.Location(), "ADD of %s has no --checksum", source)
			}
		}
	case *instructions.ArgCommand:
		for _, kv := range i.Args {
			c.named(kv.Key, i.Location())
		}
	case *instructions.EnvCommand:
		for _, kv := range i.Env {
			c.named(kv.Key, i.Location())
		}
	}
}

// named checks the name of a variable.
func (c *check) named(name string, at []parser.Range) {
	if secret.MatchString(name) {
		c.add(at, "the variable %s looks like a secret, and everybody who has the image reads it", name)
	}
}

// targets returns the stages that no other uses, and checks the user of their programs.
func (c *check) targets() []Target {
	var found []Target
	for _, s := range c.order {
		if s.used {
			continue
		}
		user, _, _ := strings.Cut(s.User, ":")
		switch n, err := strconv.Atoi(user); {
		case err != nil:
			c.add(s.location, "the stage %s runs as %q, and Kubernetes only believes a number to be another than root", s.Name, s.User)
		case n == 0:
			c.add(s.location, "the stage %s runs as root", s.Name)
		}
		if len(s.Entrypoint) == 0 {
			c.add(s.location, "the stage %s has no ENTRYPOINT", s.Name)
		}
		found = append(found, s.Target)
	}
	return found
}
