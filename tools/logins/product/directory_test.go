package product

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kapis.dev/ks-apiserver/tools/logins/chromium"
	"kapis.dev/ks-apiserver/tools/slapd"
)

// complaint waits for the error message of the page, and checks that it contains want.
func complaint(t *testing.T, b *chromium.Browser, want string) {
	t.Helper()
	b.Until(`document.readyState === "complete" && document.querySelector("#error") !== null`)
	if got := chromium.Eval[string](b, `document.querySelector("#error").innerText`); !strings.Contains(got, want) {
		t.Errorf("the page says %q, and not %q", got, want)
	}
}

// retry sends a password, where the name and the provider stand in the page already.
func retry(b *chromium.Browser, pass string) {
	b.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#error").remove()`))
	b.TabTo("#password")
	b.Types(pass, kb.Enter)
}

// U30, U33, S12, by keyboard alone: a user of the directory logs in to a client, which learns their groups there.
func TestAPersonOfTheDirectoryLogsInByKeyboardAlone(t *testing.T) {
	l := slapd.New(t, []string{"carol", "dave"}, []string{"astronomers", "rest"})
	addProvider(t, "corp", l.Configuration("corp")+"displayName: Example Corp\n")
	forget(t, usersPath+"/carol")
	p := newParty(t, "harbor")
	b := open(t, chromium.Desktop(), p)
	j := p.begin()
	b.Visit(j.address)
	b.Sees("Log in")
	b.Inspect("product-login")
	b.TabTo("#username")
	b.Types("carol")
	b.TabTo("#password")
	b.Types("wrong")
	b.TabTo("#provider")
	b.Types("Exam")
	b.TabTo("form button[type=submit]")
	b.Types(kb.Enter)
	complaint(t, b, "The name or the password is wrong.")
	b.Inspect("product-wrong")

	l.Stop()
	retry(b, slapd.Password)
	complaint(t, b, "Example Corp does not answer.")
	l.Start()
	retry(b, slapd.Password)
	p.allow(b)
	token, who := p.finish(t, b, j)
	if who.Name != "carol" || !slices.Contains(who.Groups, "astronomers") || !slices.Contains(who.Groups, "rest") {
		t.Errorf("%+v", who)
	}

	l.Modify("dn: cn=astronomers,ou=groups," + slapd.Base + "\nchangetype: delete\n")
	next, err := p.refresh(token)
	if err != nil {
		t.Fatal(err)
	}
	if now := p.claims(t, next); slices.Contains(now.Groups, "astronomers") || !slices.Contains(now.Groups, "rest") {
		t.Errorf("after the group is gone: %+v", now)
	}

	again := p.begin() // the user is logged in, and has consented
	b.Visit(again.address)
	if _, who := p.finish(t, b, again); who.Name != "carol" || slices.Contains(who.Groups, "astronomers") {
		t.Errorf("%+v", who)
	}
	b.Quiet()
}
