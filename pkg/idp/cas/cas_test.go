package cas

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// server is a CAS server with one user, who is logged in.
type server struct {
	mu      sync.Mutex
	count   int
	tickets map[string]string // the service of each
	asked   map[string]bool   // those that a password was entered for
	name    string
	groups  []string
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cas/login", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.count++
		ticket := fmt.Sprint("ST-ticket-canary-", s.count)
		s.tickets[ticket] = r.URL.Query().Get("service")
		if s.asked != nil {
			s.asked[ticket] = r.URL.Query().Get("renew") == "true"
		}
		http.Redirect(w, r, r.URL.Query().Get("service")+"&ticket="+ticket, http.StatusFound)
	})
	mux.HandleFunc("GET /cas/p3/serviceValidate", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		service, ok := s.tickets[r.URL.Query().Get("ticket")]
		delete(s.tickets, r.URL.Query().Get("ticket"))
		w.Header().Set("Content-Type", "application/xml;charset=UTF-8")
		switch {
		case !ok, r.URL.Query().Get("renew") == "true" && !s.asked[r.URL.Query().Get("ticket")]:
			_, _ = fmt.Fprint(w, failure("INVALID_TICKET"))
		case service != r.URL.Query().Get("service"):
			_, _ = fmt.Fprint(w, failure("INVALID_SERVICE"))
		default:
			_, _ = fmt.Fprint(w, s.success())
		}
	})
	return mux
}

func failure(code string) string {
	return `<cas:serviceResponse xmlns:cas="http://www.yale.edu/tp/cas"><cas:authenticationFailure code="` + code +
		`">Ticket not recognized</cas:authenticationFailure></cas:serviceResponse>`
}

func (s *server) success() string {
	var groups strings.Builder
	for _, g := range s.groups {
		groups.WriteString("<cas:memberOf>")
		_ = xml.EscapeText(&groups, []byte(g))
		groups.WriteString("</cas:memberOf>\n")
	}
	return `<?xml version="1.0" encoding="UTF-8"?>
<cas:serviceResponse xmlns:cas="http://www.yale.edu/tp/cas">
  <cas:authenticationSuccess>
    <cas:user>jdoe</cas:user>
    <cas:attributes>
      <cas:isFromNewLogin>true</cas:isFromNewLogin>
      <cas:mail>` + s.name + `@example.com</cas:mail>
      <cas:displayName>` + s.name + ` &amp; Co</cas:displayName>
      ` + groups.String() + `
    </cas:attributes>
  </cas:authenticationSuccess>
</cas:serviceResponse>
`
}

func TestSuite(t *testing.T) {
	idptest.Suite{Type: Type(), Start: func(_ *testing.T, o idptest.Outside) *idptest.Double {
		s := &server{tickets: map[string]string{}, name: "jane", groups: []string{"staff", "dev"}}
		return &idptest.Double{
			Handler: s.handler(),
			Settings: map[string]any{
				"casServerURL":       o.Base + "/cas",
				"rootCAData":         o.CA,
				"timeout":            "20s",
				"groupsKey":          "memberOf",
				"groupsPrefix":       "cas:",
				"insecureSkipVerify": false,
			},
			Required:  []string{"casServerURL"},
			Addresses: []string{"casServerURL"},
			Secrets:   []string{"ticket-canary"},
			Impatient: map[string]any{"timeout": "300ms"},
			Wrong: map[string]func(map[string]any){
				"path":        func(s map[string]any) { s["casServerURL"] = o.Base + "/nowhere" },
				"authorities": func(s map[string]any) { delete(s, "rootCAData") },
			},
			Person:    idp.Identity{Subject: "jdoe", Username: "jdoe", DisplayName: "jane & Co", Email: "jane@example.com", Groups: []string{"cas:dev", "cas:staff"}},
			NoPKCE:    true,
			NoNonce:   true,
			Rename:    func() { s.name = "june" },
			SetGroups: func(groups []string) { s.groups = groups },
		}
	}}.Run(t)
}

const head = `<cas:serviceResponse xmlns:cas="http://www.yale.edu/tp/cas">`

func wrapped(inner string) string {
	return head + "<cas:authenticationSuccess>" + inner + "</cas:authenticationSuccess></cas:serviceResponse>"
}

func TestAnswersWithTwoReadingsAreRefused(t *testing.T) { // S48
	for name, text := range map[string]string{
		"DocumentType":                 `<!DOCTYPE x [<!ENTITY e "admin">]>` + wrapped("<cas:user>&e;</cas:user>"),
		"ExternalEntity":               `<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>` + wrapped("<cas:user>&e;</cas:user>"),
		"DocumentTypeAlone":            `<!DOCTYPE x>` + wrapped("<cas:user>jdoe</cas:user>"),
		"UnknownEntity":                wrapped("<cas:user>&e;</cas:user>"),
		"TwoUsers":                     wrapped("<cas:user>jdoe</cas:user><cas:user>admin</cas:user>"),
		"NoUser":                       wrapped(""),
		"EmptyUser":                    wrapped("<cas:user> </cas:user>"),
		"CommentSplitsTheUser":         wrapped("<cas:user>admin<!-- -->x</cas:user>"),
		"CommentAnywhere":              wrapped("<!-- x --><cas:user>jdoe</cas:user>"),
		"InstructionSplitsTheUser":     wrapped("<cas:user>admin<?x?>y</cas:user>"),
		"InstructionBefore":            `<?evil x?>` + wrapped("<cas:user>jdoe</cas:user>"),
		"UserWithElements":             wrapped("<cas:user><cas:x>admin</cas:x></cas:user>"),
		"UserMixed":                    wrapped("<cas:user>jdoe<cas:x>admin</cas:x></cas:user>"),
		"UserOfAnotherNamespace":       wrapped(`<cas:user xmlns:cas="urn:evil">admin</cas:user>`),
		"UserOfNoNamespace":            wrapped("<user>admin</user>"),
		"BesidesAUserOfAnotherSpace":   wrapped(`<cas:user>jdoe</cas:user><x:user xmlns:x="urn:evil">admin</x:user>`),
		"RootOfAnotherNamespace":       `<cas:serviceResponse xmlns:cas="urn:evil"><cas:authenticationSuccess><cas:user>jdoe</cas:user></cas:authenticationSuccess></cas:serviceResponse>`,
		"RootOfNoNamespace":            `<serviceResponse><authenticationSuccess><user>jdoe</user></authenticationSuccess></serviceResponse>`,
		"PrefixWithoutNamespace":       `<cas:serviceResponse><cas:authenticationSuccess><cas:user>jdoe</cas:user></cas:authenticationSuccess></cas:serviceResponse>`,
		"TwoSuccesses":                 head + "<cas:authenticationSuccess><cas:user>a</cas:user></cas:authenticationSuccess><cas:authenticationSuccess><cas:user>b</cas:user></cas:authenticationSuccess></cas:serviceResponse>",
		"SuccessAndFailure":            head + `<cas:authenticationFailure code="X">no</cas:authenticationFailure><cas:authenticationSuccess><cas:user>b</cas:user></cas:authenticationSuccess></cas:serviceResponse>`,
		"TwoRoots":                     wrapped("<cas:user>a</cas:user>") + wrapped("<cas:user>b</cas:user>"),
		"TwoListsOfAttributes":         wrapped("<cas:user>a</cas:user><cas:attributes/><cas:attributes/>"),
		"SuccessWithinAnAttribute":     head + "<cas:x>" + wrapped("<cas:user>a</cas:user>") + "</cas:x></cas:serviceResponse>",
		"TextBesidesElements":          wrapped("text<cas:user>a</cas:user>"),
		"TextBehind":                   wrapped("<cas:user>a</cas:user>") + "x",
		"ProxyChain":                   wrapped("<cas:user>a</cas:user><cas:proxies><cas:proxy>https://x</cas:proxy></cas:proxies>"),
		"EndsEarly":                    head + "<cas:authenticationSuccess><cas:user>a</cas:user>",
		"Deep":                         head + strings.Repeat("<cas:x>", 100) + strings.Repeat("</cas:x>", 100) + "</cas:serviceResponse>",
		"Many":                         wrapped("<cas:user>a</cas:user><cas:attributes>" + strings.Repeat("<cas:x/>", maxNodes) + "</cas:attributes>"),
		"AnotherCharacterSet":          `<?xml version="1.0" encoding="UTF-7"?>` + wrapped("<cas:user>a</cas:user>"),
		"NoXML":                        "no\n\n",
		"Version1":                     "yes\njdoe\n",
		"Nothing":                      "",
		"FailureWithoutCode":           head + "<cas:authenticationFailure>no</cas:authenticationFailure></cas:serviceResponse>",
		"FailureWithForeignCode":       head + `<cas:authenticationFailure x:code="A" xmlns:x="urn:x">no</cas:authenticationFailure></cas:serviceResponse>`,
		"InvalidUTF8":                  wrapped("<cas:user>a\xff</cas:user>"),
		"ControlCharacter":             wrapped("<cas:user>a&#1;</cas:user>"),
		"SuccessOfAnotherNameByPrefix": `<cas:serviceResponse xmlns:cas="http://www.yale.edu/tp/cas" xmlns:c="http://www.yale.edu/tp/cas/"><c:authenticationSuccess><cas:user>a</cas:user></c:authenticationSuccess></cas:serviceResponse>`,
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := parse([]byte(text)); err == nil {
				t.Errorf("it is read as %+v", r)
			}
		})
	}
}

func TestAnswersOfServersAreRead(t *testing.T) {
	r, err := parse(
		[]byte(
			`<serviceResponse xmlns="http://www.yale.edu/tp/cas"><authenticationSuccess><user> j&#100;oe </user><attributes><mail>a@b.c</mail><g>1</g><g>2</g><deep><g>3</g></deep></attributes></authenticationSuccess></serviceResponse>`,
		),
	)
	if err != nil || r.User != "jdoe" || strings.Join(r.Attributes["g"], "") != "12" || r.Code != "" {
		t.Errorf("by a default namespace: %+v, %v", r, err)
	}
	if r, err := parse([]byte(failure("INVALID_TICKET"))); err != nil || r.Code != "INVALID_TICKET" || r.User != "" {
		t.Errorf("a failure: %+v, %v", r, err)
	}
}

func TestTheSubjectIsTheAttributeThatNeverChanges(t *testing.T) {
	p := &Provider{settings: settings{SubjectKey: "uuid"}}
	who, err := p.person(&response{User: "jdoe", Attributes: map[string][]string{"uuid": {"u-1"}}})
	if err != nil || who.Subject != "u-1" || who.Username != "jdoe" {
		t.Errorf("%+v, %v", who, err)
	}
	for _, attributes := range []map[string][]string{nil, {"uuid": {""}}, {"uuid": {"u-1", "u-2"}}, {"uuid": {"a\nb"}}} {
		if who, err := p.person(&response{User: "jdoe", Attributes: attributes}); err == nil {
			t.Errorf("%v makes %+v", attributes, who)
		}
	}
}

func FuzzAnAnswerNamesOneUserAsItIsWritten(f *testing.F) {
	for _, seed := range []string{wrapped("<cas:user>jdoe</cas:user>"), failure("INVALID_TICKET"), wrapped("<cas:user>a<!-- -->b</cas:user>"), `<!DOCTYPE x>` +
		wrapped("<cas:user>a</cas:user>"), "yes\njdoe\n",
		wrapped(`<cas:user>a</cas:user><cas:attributes><cas:mail>x</cas:mail></cas:attributes>`)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parse([]byte(text))
		if err != nil {
			return
		}
		if (r.User == "") == (r.Code == "") && r.Code != "" {
			t.Errorf("both a user and a failure: %+v", r)
		}
		if strings.Contains(text, "<!") && !strings.Contains(text, "<![CDATA[") {
			t.Errorf("a declaration or a comment is taken: %q", text)
		}
		if r.User != "" && strings.Count(text, "user") < 2 {
			t.Errorf("a user out of nothing: %q", text)
		}
	})
}

// S73: a fresh login is requested and verified: if the browser drops the parameter, its ticket is not accepted.
func TestAFreshLoginIsVerified(t *testing.T) {
	s := &server{tickets: map[string]string{}, asked: map[string]bool{}, name: "jane"}
	srv := httptest.NewServer(s.handler())
	t.Cleanup(srv.Close)
	opened, err := open([]byte(`{"casServerURL":"`+srv.URL+`/cas"}`), idp.OpenOptions{AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	p := opened.(*Provider)
	const callback = "https://ks.example/oauth/callback/cas"
	for name, test := range map[string]struct {
		again bool
		tamp  func(string) string
		fresh bool
		want  error
	}{
		"NotAskedFor":    {false, func(s string) string { return s }, false, nil},
		"AskedFor":       {true, func(s string) string { return s }, true, nil},
		"TakenOut":       {true, func(s string) string { return strings.Replace(s, "renew=true", "renew=", 1) }, false, idp.ErrRefused},
		"OnlyInTheLogin": {false, func(s string) string { return s + "&renew=true" }, false, nil},
	} {
		to, err := p.Begin(t.Context(), idp.Begin{Callback: callback, State: "state-" + name, Again: test.again})
		if err != nil {
			t.Fatal(err)
		}
		c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := c.Get(test.tamp(to))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		back, err := resp.Location()
		if err != nil {
			t.Fatal(err)
		}
		who, err := p.Finish(t.Context(), idp.Callback{Values: back.Query(), Callback: callback, Again: test.again})
		if !errors.Is(err, test.want) || err == nil && who.Authenticated.IsZero() == test.fresh {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
}
