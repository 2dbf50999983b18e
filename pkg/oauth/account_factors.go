package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// offered refuses what this server does not offer.
func offered(is bool) error {
	if !is {
		return problem(http.StatusNotFound, page.Say("error.missing"), nil)
	}
	return nil
}

// beginTOTP shows a new secret. Nothing is stored before the person's app has shown a code of it.
func (s *Server) beginTOTP(r *http.Request, b *browser, _ form) (any, error) {
	if err := offered(s.deps.totp != nil); err != nil {
		return nil, err
	}
	uri, sealed, err := s.deps.totp.BeginTOTP(b.user)
	if err != nil {
		return nil, err
	}
	return s.totpPage(r, formState{Session: b.session.Name}, enrolment{b.user.Name, uri, sealed, "account"}, 0, nil)
}

// enrolment is what the page of a new secret needs again, should its code be wrong.
type enrolment struct {
	User   string `json:"n"`
	URI    string `json:"u"`
	Sealed string `json:"s"`
	Action string `json:"a"`
}

// totpPage shows a new secret, and asks for a code of it. p is what to go on with.
func (s *Server) totpPage(r *http.Request, p formState, e enrolment, code int, say page.Message) (any, error) {
	u, err := url.Parse(e.URI)
	if err != nil {
		return nil, fmt.Errorf("show the secret of an authenticator app: %w", err)
	}
	qr, err := page.QR(e.URI)
	if err != nil {
		return nil, err
	}
	p.Enrolment = &e
	form, set, err := s.sealForm(r, formTotp, p)
	if err != nil {
		return nil, err
	}
	d := page.TOTP{QR: qr, Account: e.User, Action: e.Action, Secret: inFours(u.Query().Get("secret"))}
	d.Form, d.Error = form, say
	return s.show(code, d, p.targets(), set), nil
}

// inFours makes a secret easier to type.
func inFours(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i > 0 && i%4 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (s *Server) confirmTOTP(r *http.Request, b *browser, f form) (any, error) {
	p, err := s.openForm(r, formTotp, f["form"])
	if err == nil {
		err = offered(s.deps.totp != nil)
	}
	if err != nil {
		return nil, err
	}
	if p.Enrolment == nil || p.Result != nil {
		return nil, stale(errors.New("the form is that of a login"))
	}
	recovery, err := s.deps.totp.ConfirmTOTP(r.Context(), b.user, p.Enrolment.Sealed, digits(f["code"]))
	if err == nil {
		return s.recoveryPage(recovery, "account"), nil
	}
	return s.badCodeOfApp(r, p, err)
}

// badCodeOfApp shows the secret again, with what is wrong with the code.
func (s *Server) badCodeOfApp(r *http.Request, p *formState, err error) (any, error) {
	code, say, ok := loginFault(err, "")
	if !ok {
		return nil, err
	}
	if errors.Is(err, iam.ErrCredentials) {
		say = page.Say("error.code")
	}
	return s.totpPage(r, *p, *p.Enrolment, code, say)
}

// digits leaves out the blanks that apps show in codes.
func digits(code string) string { return strings.ReplaceAll(code, " ", "") }

// askEnrolment has somebody set up a second factor who has to have one, before he is logged in.
func (s *Server) askEnrolment(r *http.Request, p *formState, proof *iam.AuthnResult, code int, say page.Message) (any, error) {
	if err := offered(s.deps.totp != nil); err != nil {
		return nil, err
	}
	uri, sealed, err := s.deps.totp.BeginTOTP(proof.User)
	if err != nil {
		return nil, err
	}
	return s.totpPage(r, *p, enrolment{proof.User.Name, uri, sealed, "login"}, code, say)
}

// enrolStep takes the first code of an app that had to be set up. The recovery codes are shown before the person goes on, since
// they are shown once.
func (s *Server) enrolStep(r *http.Request, f form) (any, error) {
	p, proof, err := s.openResult(r, formTotp, f["form"])
	if err != nil {
		return nil, err
	}
	if p.Enrolment == nil || s.deps.enroller == nil {
		return nil, stale(errors.New("no second factor is to be set up"))
	}
	recovery, err := s.deps.enroller.EnrolTOTP(r.Context(), proof, p.Enrolment.Sealed, digits(f["code"]), s.originOf(r))
	if err != nil {
		return s.badCodeOfApp(r, p, err)
	}
	p.Enrolment, p.Result = nil, sealResult(proof)
	sealed, set, err := s.sealForm(r, formEnrolled, *p)
	if err != nil {
		return nil, err
	}
	d := page.Secret{Title: page.Say("secret.recovery"), Text: page.Say("secret.text"), Values: recovery, Action: "login", Step: "enrolled", Form: sealed}
	return s.show(0, d, p.targets(), set), nil
}

// enrolledStep goes on with a login once the person has kept his recovery codes.
func (s *Server) enrolledStep(r *http.Request, f form) (any, error) {
	p, proof, err := s.openResult(r, formEnrolled, f["form"])
	if err != nil {
		return nil, err
	}
	return s.advance(r, p, proof)
}

func (s *Server) recoveryPage(codes []string, to string) any {
	return s.show(0, page.Secret{Title: page.Say("secret.recovery"), Text: page.Say("secret.text"), Values: codes, Action: to}, nil)
}

func (s *Server) removeTOTP(r *http.Request, b *browser, _ form) (any, error) {
	if err := offered(s.deps.totp != nil); err != nil {
		return nil, err
	}
	if err := s.deps.totp.RemoveTOTP(r.Context(), b.user); err != nil {
		return nil, err
	}
	return back(r, "totp")
}

func (s *Server) newRecovery(r *http.Request, b *browser, _ form) (any, error) {
	if err := offered(s.deps.totp != nil); err != nil {
		return nil, err
	}
	codes, err := s.deps.totp.NewRecovery(r.Context(), b.user)
	if err != nil {
		return nil, err
	}
	return s.recoveryPage(codes, "account"), nil
}

// beginPasskey shows the page that makes a passkey.
func (s *Server) beginPasskey(r *http.Request, b *browser, _ form) (any, error) {
	if err := offered(s.deps.passkeys != nil); err != nil {
		return nil, err
	}
	options, challenge, err := s.deps.passkeys.BeginPasskey(b.user)
	if err != nil {
		return nil, err
	}
	form, set, err := s.sealForm(r, formAdd, formState{Session: b.session.Name, Challenge: challenge})
	if err != nil {
		return nil, err
	}
	d := page.AddPasskey{Passkey: &page.Passkey{Form: form, Step: "passkey-add", Root: root(r), Action: "account", Call: "create",
		Options: string(options), Naming: true}}
	return s.show(0, d, nil, set), nil
}

// maxKeyName is the length of the name of a passkey, in characters.
const maxKeyName = 64

func (s *Server) addPasskey(r *http.Request, b *browser, f form) (any, error) {
	if err := offered(s.deps.passkeys != nil); err != nil {
		return nil, err
	}
	name := strings.TrimSpace(f["name"])
	if name == "" || utf8.RuneCountInString(name) > maxKeyName || !utf8.ValidString(name) {
		name = "Passkey"
	}
	if err := s.deps.passkeys.AddPasskey(r.Context(), b.user, f["challenge"], name, []byte(f["response"])); err != nil {
		return nil, err
	}
	return back(r, "passkey")
}

func (s *Server) removePasskey(r *http.Request, b *browser, f form) (any, error) {
	if err := offered(s.deps.passkeys != nil); err != nil {
		return nil, err
	}
	if err := s.deps.passkeys.RemovePasskey(r.Context(), b.user, f["id"]); err != nil {
		return nil, err
	}
	return back(r, "removed")
}
