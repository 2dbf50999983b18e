package audit

import (
	"strings"
	"unsafe"
)

// Compact returns a copy of e without bodies, which retains nothing of e or of its request, and how many bytes it takes.
func (e *Event) Compact() (c *Event, size int) {
	out := *e
	c = &out
	c.Bodies = nil
	c.Groups, c.Sources = append([]string(nil), e.Groups...), append([]string(nil), e.Sources...)
	c.inline = [2]annotation{}
	c.annotations = append([]annotation(nil), e.annotations...)
	texts := []*string{
		&c.ID, (*string)(&c.Level), (*string)(&c.Stage), &c.URI, &c.Verb, &c.UserAgent, &c.Username, &c.UID, &c.Object.Resource,
		&c.Object.Namespace, &c.Object.Name, (*string)(&c.Object.UID), &c.Object.APIGroup, &c.Object.APIVersion, &c.Object.ResourceVersion,
		&c.Object.Subresource, &c.Scope, &c.Workspace, &c.Cluster, &c.Decision, &c.Reason, &c.Login.Verb, &c.Login.Method, &c.Login.Provider,
		&c.Login.Client, &c.Login.Username, &c.Login.UID,
	}
	for n := range c.Groups {
		texts = append(texts, &c.Groups[n])
	}
	for n := range c.Sources {
		texts = append(texts, &c.Sources[n])
	}
	for n := range c.annotations {
		texts = append(texts, &c.annotations[n].key, &c.annotations[n].value)
	}
	length := 0
	for _, t := range texts {
		length += len(*t)
	}
	var all strings.Builder // one allocation for all of them
	all.Grow(length)
	for _, t := range texts {
		all.WriteString(*t)
	}
	rest := all.String()
	for _, t := range texts {
		*t, rest = rest[:len(*t)], rest[len(*t):]
	}
	return c, int(unsafe.Sizeof(out)) + length + 16*(len(c.Groups)+len(c.Sources)) + 32*len(c.annotations)
}

// Caller returns the name and the UID of the user whom the event names: at a login, of the one who logs in.
func (e *Event) Caller() (name, uid string) {
	name, uid, _ = e.caller()
	return name, uid
}
