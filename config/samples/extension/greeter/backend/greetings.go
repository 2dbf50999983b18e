package main

import (
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

const (
	group = "greeter.example.com"
	// The audiences of tokens: of the group's APIService, and of the ReverseProxy by its name.
	apiAudience, pageAudience = "apiservice:" + group + "/v1", "reverseproxy:greeter"
	// maxBody bounds a request, in bytes, maxText a greeting, and maxGreetings how many are kept.
	maxBody, maxText, maxGreetings = 4 << 10, 200, 100
)

// greeting is what a user has left.
type greeting struct {
	ID     string `json:"id"`
	Author string `json:"author"`
	Text   string `json:"text"`
}

// handler answers requests. That the caller may make them was decided by ks-apiserver before: `get`, `list` or `create` greetings, or the
// path of the page. Who it is, the token says.
type handler struct {
	verifier *verifier

	mu   sync.Mutex
	last int
	all  []greeting
}

func newHandler(v *verifier) http.Handler {
	h, mux := &handler{verifier: v}, http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /kapis/"+group+"/v1/greetings", h.as(apiAudience, h.list))
	mux.HandleFunc("POST /kapis/"+group+"/v1/greetings", h.as(apiAudience, h.create))
	mux.HandleFunc("GET /hello", h.as(pageAudience, h.page)) // /proxy/greeter/hello, without its prefix
	return mux
}

// as returns a handler that is told who asks, and that nobody reaches without a token for an audience.
func (h *handler) as(audience string, next func(http.ResponseWriter, *http.Request, *identity)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := h.verifier.identify(r, audience)
		switch {
		case errors.Is(err, errToken):
			fail(w, http.StatusUnauthorized, "the request has no token of ks-apiserver for this backend")
		case err != nil:
			log.Print(err)
			fail(w, http.StatusServiceUnavailable, "the keys of ks-apiserver can't be read")
		default:
			next(w, r, who)
		}
	}
}

func (h *handler) list(w http.ResponseWriter, _ *http.Request, who *identity) {
	h.mu.Lock()
	items := append([]greeting{}, h.all...)
	h.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"apiVersion": group + "/v1", "kind": "GreetingList", "caller": who.Name, "items": items})
}

func (h *handler) create(w http.ResponseWriter, r *http.Request, who *identity) {
	var in struct {
		Text string `json:"text"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
		fail(w, http.StatusBadRequest, "the body is no JSON object with a text")
		return
	}
	if in.Text = strings.TrimSpace(in.Text); in.Text == "" || len(in.Text) > maxText {
		fail(w, http.StatusUnprocessableEntity, "text: it has between 1 and "+strconv.Itoa(maxText)+" bytes")
		return
	}
	h.mu.Lock()
	h.last++
	made := greeting{ID: strconv.Itoa(h.last), Author: who.Name, Text: in.Text}
	h.all = append(h.all, made)
	h.all = h.all[max(0, len(h.all)-maxGreetings):]
	h.mu.Unlock()
	answer(w, http.StatusCreated, made)
}

var hello = template.Must(template.New("hello").Parse("<!DOCTYPE html>\n<title>Greeter</title>\n<p>Hello, {{.Name}}.</p>\n"))

func (h *handler) page(w http.ResponseWriter, _ *http.Request, who *identity) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = hello.Execute(w, who)
}

// fail answers with an error as clients of Kubernetes read it.
func fail(w http.ResponseWriter, code int, message string) {
	answer(w, code, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "message": message})
}

func answer(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}
