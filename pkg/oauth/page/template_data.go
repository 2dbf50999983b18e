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

// Asking has the common data of pages with forms.
type Asking struct {
	// Form is the form state, sealed.
	Form string
	// Error says what was wrong with the last form.
	Error Message
}

// Provider is an identity provider that the user may choose.
type Provider struct {
	Name, Label string
	// Address is the URL where a login begins, for providers that users are redirected to.
	Address string
	// Chosen says that it is the provider of the last attempt.
	Chosen bool
}

// Passkey is a form that asks the browser for a passkey.
type Passkey struct {
	Form, Step, Root, Action string
	// Call is the function of navigator.credentials: create or get. Options are its options as JSON.
	Call, Options string
	// Naming asks for a name of the new passkey. Or separates the button from the form above it.
	Naming, Or bool
}

// Login asks for the user name and password, or for another way to log in.
type Login struct {
	narrow
	Asking
	// Client is the client that the user logs in to; "" for the platform itself.
	Client   string
	Username string
	// Again says that a user who is logged in has to authenticate again.
	Again bool
	// Passwords are the providers that check passwords, Redirects those that users are redirected to.
	Passwords, Redirects []Provider
	Passkey              *Passkey
}

func (Login) file() string { return "login" }

// Scripted reports whether the page has a button for passkeys.
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

// Scripted reports whether the page has a button for passkeys.
func (f Factor) Scripted() bool { return f.Passkey != nil }

// Password asks for a new password.
type Password struct {
	narrow
	Asking
	User string
	// Forced says that the password has to be changed before anything else, right after a login.
	Forced bool
	// Action is where the form is sent, and Step its step.
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

// Consent asks whether a client may have scopes.
type Consent struct {
	narrow
	Asking
	Client, User string
	Scopes       []Message
	// Target is where the browser goes next: the host of the client's redirect URI.
	Target string
	// Fixed says that the user can't log in as another here.
	Fixed bool
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

// Notice shows a message.
type Notice struct {
	narrow
	Title, Text Message
	// Detail is for developers of clients.
	Detail string
	// Failed says that the message is an error.
	Failed bool
	Link   *Link
}

func (Notice) file() string { return "notice" }

// Link is the link to continue with.
type Link struct {
	To   string // below /oauth/
	Text Message
}

// Secret shows a secret once.
type Secret struct {
	narrow
	Title, Text Message
	Values      []string
	// Action is where the user continues: by a link, or, if there is a Form, by sending that.
	Action, Step, Form string
}

func (Secret) file() string { return "secret" }

// TOTP shows the secret of a new authenticator app, and asks for its first code.
type TOTP struct {
	narrow
	Asking
	QR              template.HTML
	Account, Secret string
	// Action is where the form is sent.
	Action string
}

func (TOTP) file() string { return "totp" }

// AddPasskey creates a new passkey.
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
	// MayChangePassword, MayFactor, MayPasskey and MayKeys say which sections the page has.
	MayChangePassword, MayFactor, MayPasskey, MayKeys bool

	TOTP         bool
	RecoveryLeft int
	Passkeys     []OwnPasskey
	Sessions     []Session
	// Others says that there are other sessions than this browser's.
	Others bool
	Keys   []Key
	// Days are the lifetimes of a key to choose from.
	Days []int
}

func (Account) file() string { return "account" }

// Wide is true: the page consists of lists.
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
	// Current says that it is this browser's session.
	Current bool
}

// Key is an API key in a list.
type Key struct {
	Name, Description string
	// ReadOnly says that the key is for reading only.
	ReadOnly      bool
	Expires, Used time.Time
}

func initial(name string) string {
	for _, r := range name {
		return strings.ToUpper(string(r))
	}
	return "?"
}

// all has one of each type of page.
func all() []Data {
	return []Data{Login{}, Factor{}, Password{}, Register{}, Consent{}, Device{}, DeviceConfirm{}, Logout{}, Notice{}, Secret{}, TOTP{},
		AddPasskey{}, Account{}}
}
