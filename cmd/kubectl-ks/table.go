package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"kapis.dev/ks-apiserver/pkg/queryclient"
)

// table is a meta.k8s.io/v1 Table, with what a query adds.
type table struct {
	list
	Kind    string
	Columns []column `json:"columnDefinitions"`
	Rows    []tableRow

	items []json.RawMessage // the rows, as the server sent them
}

type column struct {
	Name, Type string
	Priority   int
}

type tableRow struct {
	Cells  []any
	Object struct {
		Metadata struct {
			Name, Namespace, UID, ResourceVersion string
			CreationTimestamp                     time.Time
			Annotations                           map[string]string
		}
	}
}

// errNoTable is the error for a server that does not know Tables.
var errNoTable = errors.New("the server answers without a table: it is older than this plugin; ask for -o json, yaml or name")

func readTable(text []byte) (*table, error) {
	var t table
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&t); err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	if t.Kind != "Table" {
		return nil, errNoTable
	}
	var raw struct{ Rows []json.RawMessage }
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	t.items = raw.Rows
	return &t, nil
}

// table returns the answer to a query as a Table.
func (g *getter) table(ctx context.Context, q queryclient.Query) (*table, bool, error) {
	text, partial, err := g.get(ctx, q, queryclient.Table)
	if err != nil {
		return nil, false, err
	}
	t, err := readTable(text)
	return t, partial, err
}

// tablePrinter prints rows under each other.
type tablePrinter struct {
	wide, namespaces, headers, colours bool
	// width is how many characters a line has at most, 0 for any number.
	width int
	// columns are those of the last table that had some.
	columns []column
	widths  []int
	titled  bool
}

// printer returns the printer of a call; watches print with one for all of their rows.
func (g *getter) printer() *tablePrinter {
	if g.rows == nil {
		g.rows = &tablePrinter{wide: g.output == outWide, namespaces: g.all && g.query.Kind.Namespaced, headers: !g.noHeaders, colours: g.colours}
	}
	return g.rows
}

// print prints a table. before has a text for each row that stands before it, nil for none.
func (p *tablePrinter) print(w io.Writer, t *table, before []string) {
	lines := p.lines(t, before)
	if len(t.Rows) == 0 {
		return
	}
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
}

// lines returns a table as lines of text: a headline, if there was none before, and a line for each row.
func (p *tablePrinter) lines(t *table, before []string) []string {
	if len(t.Columns) > 0 {
		p.columns = t.Columns
	}
	var text [][]string
	if p.headers && !p.titled && len(t.Rows) > 0 {
		text, p.titled = append(text, p.headline(before != nil)), true
	}
	titles := len(text)
	for i := range t.Rows {
		var cells []string
		if before != nil {
			cells = append(cells, before[i])
		}
		text = append(text, append(cells, p.cells(&t.Rows[i])...))
	}
	for _, cells := range text {
		for i, c := range cells {
			if i == len(p.widths) {
				p.widths = append(p.widths, 0)
			}
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(c))
		}
	}
	names := p.headline(before != nil)
	out := make([]string, len(text))
	for n, cells := range text {
		var line strings.Builder
		left := p.width
		for i, c := range cells {
			pad := ""
			if i < len(cells)-1 {
				pad = strings.Repeat(" ", p.widths[i]-utf8.RuneCountInString(c)+gap)
			}
			if p.width > 0 {
				c = clipped(c, left)
				left -= utf8.RuneCountInString(c)
				pad = clipped(pad, left)
				left -= len(pad)
			}
			if p.colours {
				c = coloured(c, names[i], n < titles)
			}
			line.WriteString(c + pad)
		}
		out[n] = line.String()
	}
	return out
}

// eventTitle is the name of the column with the types of events, as long as the longest of them.
const eventTitle = "EVENT   "

// gap is between two columns.
const gap = 3

// clipped returns the first characters of a text.
func clipped(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:max(most, 0)])
}

func (p *tablePrinter) headline(types bool) []string {
	var out []string
	if types {
		out = append(out, eventTitle)
	}
	if p.namespaces {
		out = append(out, "NAMESPACE")
	}
	for _, c := range p.columns {
		if c.Priority == 0 || p.wide {
			out = append(out, strings.ToUpper(plainText(c.Name)))
		}
	}
	return out
}

func (p *tablePrinter) cells(r *tableRow) []string {
	var out []string
	if p.namespaces {
		out = append(out, plainText(r.Object.Metadata.Namespace))
	}
	for i, c := range p.columns {
		if c.Priority != 0 && !p.wide {
			continue
		}
		text := "<none>"
		if i < len(r.Cells) && r.Cells[i] != nil {
			text = plainText(fmt.Sprint(r.Cells[i]))
		}
		out = append(out, text)
	}
	return out
}

// aged sets the age of each row to what it is now.
func (t *table) aged(columns []column, now time.Time) {
	for i := range t.Rows {
		r := &t.Rows[i]
		for j, c := range columns {
			if at := r.Object.Metadata.CreationTimestamp; c.Name == "Age" && j < len(r.Cells) && !at.IsZero() {
				r.Cells[j] = duration.HumanDuration(now.Sub(at))
			}
		}
	}
}

const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

// coloured returns a cell of a column in the colour of what it says.
func coloured(cell, column string, title bool) string {
	colour := ""
	switch {
	case title:
		colour = bold
	case column == "STATUS" || column == "PHASE" || column == eventTitle || column == "TYPE" && (cell == "Warning" || cell == "Normal"):
		colour = colourOf(cell)
	case column == "READY":
		have, want, ok := strings.Cut(cell, "/")
		if ok && have != want {
			colour = yellow
		}
	}
	if colour == "" || cell == "" {
		return cell
	}
	return colour + cell + reset
}

func colourOf(state string) string {
	switch word, _, _ := strings.Cut(state, ","); word {
	case "Running", "Ready", "Active", "Bound", "Available", "Complete", "Completed", "Succeeded", "ADDED":
		return green
	case "Pending", "ContainerCreating", "PodInitializing", "Terminating", "SchedulingGated", "Suspended", "Released", "MODIFIED", "Warning":
		return yellow
	case "Normal":
		return ""
	}
	if strings.HasPrefix(state, "Init:") && !strings.Contains(state, "Err") && !strings.Contains(state, "BackOff") {
		return yellow
	}
	return red
}

// plainText returns a text of the cluster for a terminal: one line, in which nothing is a command to the terminal. What is cut off or
// replaced can be seen.
func plainText(s string) string {
	if line, _, more := strings.Cut(s, "\n"); more {
		s = line + "..."
	}
	if !strings.ContainsFunc(s, isCommand) {
		return s
	}
	var out strings.Builder
	for _, c := range s {
		switch {
		case !isCommand(c):
			out.WriteRune(c)
		case c < ' ':
			out.WriteString("^" + string(c+'@'))
		default:
			fmt.Fprintf(&out, `\u%04x`, c)
		}
	}
	return out.String()
}

// isCommand reports whether a terminal takes a character for something else than one to show: controls, and what changes the direction
// of the text around it.
func isCommand(c rune) bool {
	return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029' || c == utf8.RuneError
}
