package page

import (
	"html/template"
	"strings"
	"time"
)

// narrow is a page of the usual width without a script.
type narrow struct{}

func (narrow) Wide() bool     { return false }
func (narrow) Scripted() bool { return false }

// Asking is what every page with forms has.
type Asking struct {
	// Form goes with each form, sealed.
	Form string
	// Error is what went wrong with the last one.
	Error Message
}

// Provider is an identity provider that the user may choose.
type Provider struct {
	Name, Label string
	// Address is where a login there begins, for providers that users are redirected to.
	Address string
	// Chosen says that it was the last choice.
	Chosen bool
}

// Passkey is a form that asks the browser for a passkey.
type Passkey struct {
	Form, Step, Root, Action string
	// Call is the function of navigator.credentials: create or get. Options are its options as JSON.
	Call, Options string
	// Naming asks for a name of a new one. Or sets the button off from what stands before it.
	Naming, Or bool
}

// Login asks who it is.
type Login struct {
	narrow
	Asking
	// Client is what the user logs in to; "" for the platform itself.
	Client   string
	Username string
	// Again says that a user who is logged in has to authenticate again.
	Again bool
	// Passwords are the providers that check passwords, Redirects those that users are redirected to.
	Passwords, Redirects []Provider
	Passkey              *Passkey
}

func (Login) file() string { return "login" }

// Scripted reports whether there is a button for passkeys.
func (l Login) Scripted() bool { return l.Passkey != nil }

// Factor asks for the second factor.
type Factor struct {
	narrow
	Asking
	User    string
	TOTP    bool
	Passkey *Passkey
}

func (Factor) file() string { return "factor" }

// Scripted reports whether there is a button for passkeys.
func (f Factor) Scripted() bool { return f.Passkey != nil }

// Password asks for a new password.
type Password struct {
	narrow
	Asking
	User string
	// Forced says that it has to be changed before anything else, right after a login.
	Forced bool
	// Action and Step are where the form goes.
	Action, Step string
}

func (Password) file() string { return "password" }

// Register lets a new user choose the user name.
type Register struct {
	narrow
	Asking
	Provider, Username, Email string
}

func (Register) file() string { return "register" }

// Consent asks whether a client may do something.
type Consent struct {
	narrow
	Asking
	Client, User string
	Scopes       []Message
	// Target is where the browser goes then: the host of the client's redirect URI.
	Target string
}

func (Consent) file() string { return "consent" }

// Initial is the first letter of the user's name.
func (c Consent) Initial() string { return initial(c.User) }

// Device asks for the code that a device shows.
type Device struct {
	narrow
	Asking
	User, Code string
}

func (Device) file() string { return "device" }

// DeviceConfirm asks whether the device may log in.
type DeviceConfirm struct {
	narrow
	Asking
	Client, User, Code string
	Scopes             []Message
}

func (DeviceConfirm) file() string { return "device_confirm" }

// Initial is the first letter of the user's name.
func (d DeviceConfirm) Initial() string { return initial(d.User) }

// Logout asks whether to log out.
type Logout struct {
	narrow
	Asking
	Client, User string
}

func (Logout) file() string { return "logout" }

// Initial is the first letter of the user's name.
func (l Logout) Initial() string { return initial(l.User) }

// Notice says something, and no more.
type Notice struct {
	narrow
	Title, Text Message
	// Detail is for developers of clients.
	Detail string
	// Failed says that it is an error.
	Failed bool
	Link   *Link
}

func (Notice) file() string { return "notice" }

// Link is where to go on.
type Link struct {
	To   string // below /oauth/
	Text Message
}

// Secret shows what is shown once.
type Secret struct {
	narrow
	Title, Text Message
	Values      []string
	// Action is where to go on: by a link, or, where there is a Form, by that.
	Action, Step, Form string
}

func (Secret) file() string { return "secret" }

// TOTP shows the secret of a new authenticator, and asks for a code of it.
type TOTP struct {
	narrow
	Asking
	QR              template.HTML
	Account, Secret string
	// Action is where the form goes.
	Action string
}

func (TOTP) file() string { return "totp" }

// AddPasskey makes a new passkey.
type AddPasskey struct {
	narrow
	Asking
	Passkey *Passkey
}

func (AddPasskey) file() string { return "passkey" }

// Scripted is always true: there are no passkeys without a script.
func (AddPasskey) Scripted() bool { return true }

// Account is the account page.
type Account struct {
	narrow
	Asking
	Done                 Message
	User, Display, Email string
	// MayChangePassword, MayFactor, MayPasskey and MayKeys say which parts there are.
	MayChangePassword, MayFactor, MayPasskey, MayKeys bool

	TOTP         bool
	RecoveryLeft int
	Passkeys     []OwnPasskey
	Sessions     []Session
	// Others says that there are sessions besides this browser's.
	Others bool
	Keys   []Key
	// Days are the lives of a key to choose from.
	Days []int
}

func (Account) file() string { return "account" }

// Wide is true: it is a page of lists.
func (Account) Wide() bool { return true }

// Initial is the first letter of the user's name.
func (a Account) Initial() string { return initial(a.Display) }

// OwnPasskey is a passkey in a list.
type OwnPasskey struct {
	ID, Name      string
	Created, Used time.Time
}

// Session is a login in a list.
type Session struct {
	ID, Client, Device, Source string
	Created, Used              time.Time
	// Current says that it is the one of this browser.
	Current bool
}

// Key is an API key in a list.
type Key struct {
	Name, Description string
	// ReadOnly says that it is for reading only.
	ReadOnly      bool
	Expires, Used time.Time
}

func initial(name string) string {
	for _, r := range name {
		return strings.ToUpper(string(r))
	}
	return "?"
}

// all has one of each page.
func all() []Data {
	return []Data{Login{}, Factor{}, Password{}, Register{}, Consent{}, Device{}, DeviceConfirm{}, Logout{}, Notice{}, Secret{}, TOTP{},
		AddPasskey{}, Account{}}
}
