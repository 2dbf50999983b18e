package feed

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	"k8s.io/apimachinery/pkg/watch"
)

// frames are watch events as text: of each word its first letter is the type, and the rest the name of the object.
func frames(words ...string) string {
	var b strings.Builder
	for i, w := range words {
		kind := map[byte]string{'+': "ADDED", '~': "MODIFIED", '-': "DELETED", '.': "BOOKMARK", '|': "BOOKMARK"}[w[0]]
		object := strings.ReplaceAll(storetest.Pod("a", w[1:]), "%RV%", fmt.Sprint(i+1))
		if w[0] == '|' {
			object = fmt.Sprintf(`{"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}`, i+1)
		}
		fmt.Fprintf(&b, "{\"type\":%q,\"object\":%s}\n", kind, object)
	}
	return b.String()
}

// pieces is a body that arrives in pieces, as from a connection: it says so before it waits for the next.
type pieces struct {
	parts []string
	begun bool // a piece of which some was read
	conn  *batchingConn
}

func (p *pieces) Read(b []byte) (int, error) {
	if s := p.conn.stream.Load(); s != nil && !p.begun {
		s.pass()
	}
	if len(p.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.parts[0])
	p.parts[0] = p.parts[0][n:]
	if p.begun = p.parts[0] != ""; !p.begun {
		p.parts = p.parts[1:]
	}
	return n, nil
}

func (p *pieces) Close() error { return nil }

// received is what a reflector is told, one word for each event; the events of a batch are joined by commas.
func received(events <-chan watch.Event) []string {
	var words []string
	letter := map[watch.EventType]string{watch.Added: "+", watch.Modified: "~", watch.Deleted: "-", watch.Bookmark: ".", watch.Error: "!"}
	word := func(e watch.Event) string {
		d, ok := e.Object.(*index.Decoded)
		if !ok || e.Type == watch.Bookmark {
			return letter[e.Type]
		}
		return letter[e.Type] + d.Ref.Name
	}
	for e := range events {
		b, ok := e.Object.(*EventBatch)
		if !ok {
			words = append(words, word(e))
			continue
		}
		var all []string
		for _, one := range *b {
			all = append(all, word(one))
		}
		words = append(words, strings.Join(all, ","))
	}
	return words
}

func TestEventsAreHandedOnAsTheyCome(t *testing.T) {
	many := make([]string, 2*maxHeld+1)
	for i := range many {
		many[i] = fmt.Sprintf("~p%d", i)
	}
	tests := map[string]struct {
		parts   []string
		initial bool
		alone   bool // no connection says when it waits
		want    []string
	}{
		"TogetherAsOne":        {parts: []string{frames("+a", "~b", "-a")}, want: []string{"+a,~b,-a"}},
		"EachArrivalByItself":  {parts: []string{frames("+a", "~b"), frames("-a"), frames("~c", "~c")}, want: []string{"+a,~b", "-a", "~c,~c"}},
		"WhatIsCutInTheMiddle": {parts: []string{frames("+a") + frames("~b")[:20], frames("~b")[20:] + frames("~c")}, want: []string{"+a", "~b,~c"}},
		"ABookmarkBetween":     {parts: []string{frames("+a", "~b", ".", "~c", "~d")}, want: []string{"+a,~b", ".", "~c,~d"}},
		"NoMoreThanABatch": {
			parts: []string{frames(many...)},
			want:  []string{strings.Join(many[:maxHeld], ","), strings.Join(many[maxHeld:2*maxHeld], ","), many[2*maxHeld]},
		},
		"InitialObjectsOneByOne": {parts: []string{frames("+a", "+b", "|", "~a", "~b")}, initial: true, want: []string{"+a", "+b", ".", "~a,~b"}},
		"ChangesBeforeTheBookmark": {
			parts:   []string{frames("+a", "~a", "-a", "|"), frames("+a", "~a")},
			initial: true,
			want:    []string{"+a", "~a", "-a", ".", "+a,~a"},
		},
		"NobodyTellsOfAWait": {parts: []string{frames("+a", "~b")}, alone: true, want: []string{"+a", "~b"}},
		"AnErrorBehind":      {parts: []string{frames("~a", "~b") + "garbage\n"}, want: []string{"~a,~b", "!"}},
		"ShortAndEmpty":      {want: []string{"."}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &batchingConn{}
			body := &pieces{parts: tc.parts, conn: c}
			w := &watchStream{
				body: body, decoder: index.NewDecoder(noKind, &index.Schema{}, func() bool { return false }), meter: &Meter{}, failed: func(error) {},
				initial: tc.initial, listing: tc.initial, events: make(chan watch.Event, maxHeld), stop: make(chan struct{}), version: "7",
			}
			if !tc.alone {
				w.conn = c
				c.stream.Store(w)
			}
			go w.read(rawjson.NewReader(body, maxObject))
			if got := received(w.ResultChan()); !slices.Equal(got, tc.want) {
				t.Errorf("handed on %q\nwant %q", got, tc.want)
			}
			if c.stream.Load() != nil {
				t.Error("the connection still tells a stream that is over")
			}
			w.pass() // which net/http may have been about to do
		})
	}
}

// Stopping a watch does not wait for events that are not received.
func TestAStopEndsAStreamThatHoldsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &batchingConn{}
		body := &pieces{parts: []string{frames("~a", "~b"), frames("~c")}, conn: c}
		w := &watchStream{
			body: body, decoder: index.NewDecoder(noKind, &index.Schema{}, func() bool { return false }), meter: &Meter{}, failed: func(error) {},
			events: make(chan watch.Event), stop: make(chan struct{}), conn: c,
		}
		c.stream.Store(w)
		go w.read(rawjson.NewReader(body, maxObject))
		synctest.Wait()
		w.Stop()
		synctest.Wait()
		if _, ok := <-w.ResultChan(); ok {
			t.Error("an event behind the stop")
		}
	})
}
