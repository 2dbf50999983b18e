package logins

import (
	"testing"

	"kapis.dev/ks-apiserver/tools/logins/chromium"
)

// What the inspection can't find it does not protect.
func TestInspectionSeesFaults(t *testing.T) {
	w := newSite(t)
	b := w.open(t, chromium.Desktop())
	b.Visit(w.URL + "/oauth/login")
	b.Sees("Log in")
	if found := b.Faults(""); len(found) != 0 {
		t.Fatal(found)
	}
	for _, script := range []string{
		`document.querySelector(".intro").style.color = "#999999"`, `document.querySelector("label").remove()`, `document.querySelector("h1").remove()`,
		`document.querySelector("#username").tabIndex = 5`,
		`document.querySelector("button").style.minHeight = document.querySelector("button").style.height = "20px"`,
		`document.querySelector("#password").style.borderColor = "#eeeeee"`, `document.querySelector("main").style.minWidth = "3000px"`,
		`document.documentElement.lang = ""`, `document.querySelector("img").removeAttribute("alt")`, `document.querySelector("#password").id = "username"`,
	} {
		b.Visit(w.URL + "/oauth/login")
		b.Sees("Log in")
		if found := b.Faults(script); len(found) == 0 {
			t.Errorf("not seen: %s", script)
		}
	}
}
