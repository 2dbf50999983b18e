package cas

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	namespace = "http://www.yale.edu/tp/cas" // of CAS 2 and 3
	maxDepth  = 8
	maxNodes  = 5000
)

// response is the answer of a ticket validation (CAS Protocol 3.0, 2.5.2): either User, or Code.
type response struct {
	User       string
	Attributes map[string][]string
	// Code is the reason if there is no User.
	Code string
}

// node is an element. It has either text or elements; an answer with both is refused.
type node struct {
	xml.StartElement
	text  strings.Builder
	nodes []*node
}

// parse reads an answer. It accepts less than XML allows: no document type, so that there are no entities, and no comments or
// processing instructions, since parsers differ in how they join the text around them. Duplicates of elements that may occur once are
// errors too.
func parse(raw []byte) (*response, error) {
	root, err := tree(raw)
	if err != nil {
		return nil, err
	}
	if !root.is("serviceResponse") || len(root.nodes) != 1 {
		return nil, errors.New("the answer is no serviceResponse of one result")
	}
	switch result := root.nodes[0]; {
	case result.is("authenticationFailure"):
		for _, a := range result.Attr {
			if a.Name.Local == "code" && a.Name.Space == "" {
				return &response{Code: a.Value}, nil
			}
		}
		return nil, errors.New("the failure has no code")
	case result.is("authenticationSuccess"):
		return success(result)
	}
	return nil, errors.New("the answer is neither a success nor a failure")
}

// success reads a successful answer.
func success(result *node) (*response, error) {
	r := &response{Attributes: map[string][]string{}}
	users, attributes := 0, 0
	for _, n := range result.nodes {
		switch {
		case n.is("user"):
			users++
			if r.User = strings.TrimSpace(n.text.String()); len(n.nodes) > 0 {
				return nil, errors.New("the user is no text")
			}
		case n.is("attributes"):
			attributes++
			for _, a := range n.nodes {
				if len(a.nodes) == 0 && (a.Name.Space == namespace || a.Name.Space == "") {
					r.Attributes[a.Name.Local] = append(r.Attributes[a.Name.Local], strings.TrimSpace(a.text.String()))
				}
			}
		case n.is("proxyGrantingTicket"):
		default:
			return nil, errors.New("the success holds what is not for a service")
		}
	}
	if users != 1 || attributes > 1 || r.User == "" {
		return nil, errors.New("the success does not name one user")
	}
	return r, nil
}

func (n *node) is(name string) bool { return n.Name.Space == namespace && n.Name.Local == name }

// tree parses the elements.
func tree(raw []byte) (*node, error) {
	d := xml.NewDecoder(bytes.NewReader(raw))
	var root *node
	var open []*node
	count := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.New("the answer is not valid XML")
		}
		switch t := token.(type) {
		case xml.StartElement:
			n := &node{StartElement: t.Copy()}
			if count++; count > maxNodes || len(open) >= maxDepth {
				return nil, errors.New("the answer has too many elements")
			}
			switch {
			case len(open) > 0:
				last := open[len(open)-1]
				last.nodes = append(last.nodes, n)
			case root != nil:
				return nil, errors.New("the answer has more than one root")
			default:
				root = n
			}
			open = append(open, n)
		case xml.EndElement:
			n := open[len(open)-1]
			if len(n.nodes) > 0 && strings.TrimSpace(n.text.String()) != "" {
				return nil, errors.New("the answer mixes text and elements")
			}
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].text.Write(t)
			} else if len(bytes.TrimSpace(t)) > 0 {
				return nil, errors.New("the answer has text around it")
			}
		case xml.ProcInst:
			if t.Target != "xml" || root != nil {
				return nil, errors.New("the answer holds a processing instruction")
			}
		default:
			return nil, fmt.Errorf("the answer holds what is refused: %s", refusedName(token))
		}
	}
	if root == nil || len(open) > 0 {
		return nil, errors.New("the answer ends early")
	}
	return root, nil
}

func refusedName(t xml.Token) string {
	if _, ok := t.(xml.Comment); ok {
		return "a comment"
	}
	return "a document type"
}
