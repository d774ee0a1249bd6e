package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"
)

// Stage says how far the API server had got with a request when it recorded it.
type Stage string

// The stages. An ordinary request goes from received to complete; a watch is received, started when the API server
// begins to answer, and complete when it is closed. While a watch is open, and however much it delivers, it adds no
// record.
const (
	StageReceived Stage = "RequestReceived"
	StageStarted  Stage = "ResponseStarted"
	StageComplete Stage = "ResponseComplete"
	StagePanic    Stage = "Panic"
)

// Request is one record of the audit log: one request at one stage.
type Request struct {
	// ID is the same in all records of one request.
	ID string
	// Time is when the stage was reached, in microseconds of this machine's clock.
	Time  time.Time
	Stage Stage
	// User is the authenticated name, such as system:serviceaccount:default:web; UserAgent is what the client calls
	// itself.
	User, UserAgent string
	// Verb is the verb that RBAC knows: get, list, watch, create and so on.
	Verb string
	// URI is the request's path and query.
	URI string
	// Group to Name say what was asked for. They are empty for a request outside the resources, such as /readyz.
	Group, Resource, Subresource, Namespace, Name string
	// Code is the HTTP status; zero until the response is complete or, for a watch, started.
	Code int
}

// String puts the request on one line, as test failures show it.
func (r Request) String() string {
	return fmt.Sprintf("%s %s %s %s %s %d", r.Time.Format("15:04:05.000000"), r.User, r.Verb, r.URI, r.Stage, r.Code)
}

// auditEvent is what we read of a line of the audit log.
type auditEvent struct {
	AuditID        string    `json:"auditID"`
	Stage          Stage     `json:"stage"`
	StageTimestamp time.Time `json:"stageTimestamp"`
	RequestURI     string    `json:"requestURI"`
	Verb           string    `json:"verb"`
	UserAgent      string    `json:"userAgent"`
	User           struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

func (e auditEvent) request() Request {
	return Request{
		ID:          e.AuditID,
		Time:        e.StageTimestamp,
		Stage:       e.Stage,
		User:        e.User.Username,
		UserAgent:   e.UserAgent,
		Verb:        e.Verb,
		URI:         e.RequestURI,
		Group:       e.ObjectRef.APIGroup,
		Resource:    e.ObjectRef.Resource,
		Subresource: e.ObjectRef.Subresource,
		Namespace:   e.ObjectRef.Namespace,
		Name:        e.ObjectRef.Name,
		Code:        e.ResponseStatus.Code,
	}
}

// Requests returns, oldest record first, what the API server recorded at or after a moment of this machine's clock. The
// zero time means everything since the cluster started.
//
// A request is in the log as received before the API server does anything about it. Its completion is recorded right
// after the answer was sent, so a client that looks at once may not find it yet.
func (c *Cluster) Requests(since time.Time) ([]Request, error) {
	c.audit.mu.Lock()
	defer c.audit.mu.Unlock()
	if err := c.audit.readOn(c.logPath(auditLog)); err != nil {
		return nil, err
	}
	return c.audit.since(since), nil
}

// audit is what is known of the audit log. Tests ask again and again: each record is parsed once.
type audit struct {
	mu       sync.Mutex // Guards what follows, and is held while the log is read.
	read     int64      // How many bytes of the log are in requests.
	requests []Request
}

// readOn reads what has come to the log.
func (a *audit) readOn(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.NewSectionReader(file, a.read, math.MaxInt64-a.read))
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	return a.parse(data)
}

// parse leaves out an unfinished last line, until the API server has written the rest.
func (a *audit) parse(data []byte) error {
	for {
		line, rest, found := bytes.Cut(data, []byte("\n"))
		if !found {
			return nil
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("parse record %d of the audit log: %w", len(a.requests)+1, err)
		}
		a.requests = append(a.requests, event.request())
		a.read += int64(len(line)) + 1
		data = rest
	}
}

// since returns the requests that were recorded at a moment or after it.
func (a *audit) since(moment time.Time) []Request {
	// The API server cuts its times to microseconds, which must not push a record before the moment it came after.
	moment = moment.Truncate(time.Microsecond)
	var requests []Request
	for _, r := range a.requests {
		if !r.Time.Before(moment) {
			requests = append(requests, r)
		}
	}
	return requests
}
