package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/queryclient"
)

// item is an object, as the server sent it.
type item struct{ json.RawMessage }

// list is the answer to a list.
type list struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	}
	TotalItems   int
	Facets       json.RawMessage
	FacetsOthers map[string]int
	Items        []item
	// Next and Clusters are those of a list over clusters.
	Next     string
	Clusters struct {
		Missing []struct{ Name, Reason string }
		Refused []string
	}
}

func (i item) name() string {
	var o struct{ Metadata struct{ Name string } }
	if json.Unmarshal(i.RawMessage, &o) != nil {
		return ""
	}
	return o.Metadata.Name
}

func readList(text []byte) (*list, error) {
	var l list
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("read the list: %w", err)
	}
	return &l, nil
}

// list prints the list, and returns its resource version.
func (g *getter) list(ctx context.Context) (string, error) {
	q := g.query
	q.Parameters = g.paged()
	switch g.output {
	case outTable, outWide:
		t, partial, err := g.table(ctx, q)
		if err != nil {
			return "", err
		}
		if len(t.Rows) == 0 && !g.watch {
			g.nothing(t.TotalItems)
		}
		var before []string
		if g.types {
			before = slices.Repeat([]string{"ADDED"}, len(t.Rows))
		}
		g.tellMissing(&t.list)
		g.listed, g.columns = t.items, t.Columns
		g.printer().print(g.out, t, before)
		if err := g.printFacets(&t.list); err != nil {
			return "", err
		}
		g.summary(&t.list, len(t.Rows), partial)
		return t.Metadata.ResourceVersion, nil
	case outName:
		q.Parameters.Set("fields", ".metadata.name,.metadata.uid,.metadata.resourceVersion")
	}
	text, partial, err := g.get(ctx, q, queryclient.JSON)
	if err != nil {
		return "", err
	}
	l, err := readList(text)
	if err != nil {
		return "", err
	}
	g.tellMissing(l)
	if g.output == outName || g.watch {
		for _, i := range l.Items {
			g.listed = append(g.listed, i.RawMessage)
			if err := g.printChanged("ADDED", i.RawMessage); err != nil {
				return "", err
			}
		}
		g.summary(l, len(l.Items), partial)
		return l.Metadata.ResourceVersion, nil
	}
	return l.Metadata.ResourceVersion, g.printList(l)
}

// printList prints a list as a v1 List, as kubectl does, with what a query adds.
func (g *getter) printList(l *list) error {
	out := map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": l.Metadata.ResourceVersion},
		"items": l.Items, "totalItems": l.TotalItems}
	if l.Items == nil {
		out["items"] = []item{}
	}
	if len(l.Facets) > 0 {
		out["facets"] = l.Facets
	}
	if len(l.FacetsOthers) > 0 {
		out["facetsOthers"] = l.FacetsOthers
	}
	text, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("write the list: %w", err)
	}
	return g.printValue(text)
}

// printValue prints a value as JSON or YAML.
func (g *getter) printValue(text []byte) error {
	if g.output == outYAML {
		out, err := yaml.JSONToYAML(text)
		if err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
		if g.watch {
			out = append([]byte("---\n"), out...)
		}
		_, err = g.out.Write(out)
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "    "); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	out.WriteByte('\n')
	_, err := g.out.Write(out.Bytes())
	return err
}

// nothing tells the user that there are no rows, as kubectl does.
func (g *getter) nothing(total int) {
	switch {
	case total > 0:
		fmt.Fprintf(g.tell, "No objects on this page: %d on others.\n", total)
	case g.query.Namespace != "":
		fmt.Fprintf(g.tell, "No resources found in %s namespace.\n", g.query.Namespace)
	default:
		fmt.Fprintln(g.tell, "No resources found")
	}
}

// summary tells a user at a terminal what a list does not show.
func (g *getter) summary(l *list, shown int, partial bool) {
	if !g.read {
		return
	}
	if shown > 0 && l.TotalItems > shown {
		limit, page := g.limit, max(g.page, 1)
		if limit == 0 {
			limit = pageSize
		}
		fmt.Fprintf(g.tell, "Page %d of %d, %d objects in all.\n", page, (l.TotalItems+limit-1)/limit, l.TotalItems)
	}
	if partial {
		fmt.Fprintln(g.tell, "The list is of the namespaces that you may read.")
	}
}

// printFacets prints the facets of a list.
func (g *getter) printFacets(l *list) error {
	if len(l.Facets) == 0 {
		return nil
	}
	fmt.Fprintln(g.out)
	w := tabwriter.NewWriter(g.out, 0, 0, 3, ' ', 0)
	if !g.noHeaders {
		fmt.Fprintln(w, "FACET\tVALUE\tCOUNT")
	}
	err := eachMember(l.Facets, func(field string, counts json.RawMessage) error {
		err := eachMember(counts, func(value string, count json.RawMessage) error {
			if value == "" {
				value = "<none>"
			}
			_, err := fmt.Fprintf(w, "%s\t%s\t%s\n", plainText(field), plainText(value), plainText(string(count)))
			return err
		})
		if n := l.FacetsOthers[field]; n > 0 {
			fmt.Fprintf(w, "%s\t%s\t%s\n", plainText(field), "(others)", strconv.Itoa(n))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read the facets: %w", err)
	}
	return w.Flush()
}

// eachMember calls f for the members of a JSON object, in the order of the text: the most frequent value of a facet comes first.
func eachMember(object json.RawMessage, f func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		text, _ := name.(string)
		if err := f(text, value); err != nil {
			return err
		}
	}
	_, err := d.Token()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// tellMissing tells the user which clusters are not in a list.
func (g *getter) tellMissing(l *list) {
	for _, m := range l.Clusters.Missing {
		fmt.Fprintf(g.tell, "Cluster %s is missing: %s\n", plainText(m.Name), plainText(m.Reason))
	}
	if len(l.Clusters.Refused) > 0 {
		fmt.Fprintf(g.tell, "You may not list these objects in: %s\n", plainText(strings.Join(l.Clusters.Refused, ", ")))
	}
}
