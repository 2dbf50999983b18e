package session

import "encoding/binary"

// poolSize is how many texts a pool has.
const poolSize = 16 << 10

// pool shares one copy of texts that many sessions have: names of users and clients, scopes, user agents. When it is full it starts over,
// which costs copies and nothing else.
type pool struct {
	texts map[string]string
	lists map[string][]string // by their texts, each preceded by its length
	key   []byte              // a buffer for one key
}

// share replaces r's texts by the pool's copies. No other goroutine may have r yet.
func (p *pool) share(r *cached) {
	if p.texts == nil || len(p.texts)+len(p.lists) > poolSize {
		p.texts, p.lists = map[string]string{}, map[string][]string{}
	}
	for _, s := range []*string{&r.User, &r.UserUID, &r.Client, &r.Provider, &r.subject, &r.credential, &r.Source, &r.UserAgent} {
		*s = p.text(*s)
	}
	r.Scopes, r.Methods, r.Groups = p.list(r.Scopes), p.list(r.Methods), p.list(r.Groups)
}

func (p *pool) text(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := p.texts[s]; ok {
		return known
	}
	p.texts[s] = s
	return s
}

func (p *pool) list(l []string) []string {
	if len(l) == 0 {
		return nil
	}
	p.key = p.key[:0]
	for _, s := range l { // the lengths separate the texts, whatever they contain
		p.key = append(binary.AppendUvarint(p.key, uint64(len(s))), s...)
	}
	if known, ok := p.lists[string(p.key)]; ok {
		return known
	}
	for i := range l {
		l[i] = p.text(l[i])
	}
	p.lists[string(p.key)] = l
	return l
}
