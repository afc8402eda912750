package cases

import (
	"reflect"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance"
	"kshare/conformance/proxy"
)

// versions changes what ApiVersions answers say of APIs, of a node or of all with -1: max below 0 hides an API.
func (s *Stage) versions(node int32, minVersion, maxVersion int16, keys ...int16) {
	s.Edit(func(x *proxy.Exchange) bool {
		p, ok := x.Response.(*kmsg.ApiVersionsResponse)
		if !ok || node >= 0 && x.Node != node {
			return false
		}
		var kept []kmsg.ApiVersionsResponseApiKey
		for _, k := range p.ApiKeys {
			for _, key := range keys {
				if k.ApiKey == key {
					k.MinVersion, k.MaxVersion = minVersion, maxVersion
				}
			}
			if k.MaxVersion >= 0 {
				kept = append(kept, k)
			}
		}
		p.ApiKeys = kept
		return true
	})
}

var shareKeys = []int16{heartbeatKey, 77, shareFetchKey, shareAckKey}

const kip932 = "KIP-932"

var negotiation = []Case{
	{ID: "neg.01", Level: conformance.Must, Says: "ShareGroupHeartbeat to ShareAcknowledge are offered as in 4.4: the client consumes", Source: kip932, run: func(s *Stage) {
		s.Steady()
		s.Resumes(10 * time.Second)
	}},
	{ID: "neg.02", Level: conformance.Must, Says: "ShareFetch and ShareAcknowledge have version 1 at most: the client consumes and accepts with it", Source: "KIP-35, KIP-1206, KIP-1222", Setup: Setup{Late: true},
		run: func(s *Stage) {
			s.versions(-1, 1, 1, shareFetchKey, shareAckKey)
			s.Launch()
			s.Steady()
			s.Resumes(10 * time.Second)
		}},
	{ID: "neg.03", Level: conformance.Must, Says: "ShareGroupHeartbeat is not offered: the application is told, and none is sent", Source: kip932, Setup: Setup{Late: true}, Within: 40 * time.Second,
		run: func(s *Stage) {
			s.versions(-1, 0, -1, heartbeatKey)
			s.Launch()
			s.Run()
			s.MustTold(30*time.Second, 0)
			s.none(heartbeatKey)
		}},
	{ID: "neg.04", Level: conformance.Should, Says: "ShareGroupHeartbeat is offered, ShareFetch and ShareAcknowledge are not: the application is told or the client is idle", Source: kip932, Setup: Setup{Late: true},
		run: func(s *Stage) {
			s.versions(-1, 0, -1, shareFetchKey, shareAckKey)
			began := time.Now()
			s.Launch()
			s.Run()
			s.Calm(heartbeatKey, began, 10*time.Second)
			s.none(shareFetchKey)
		}},
	{ID: "neg.05", Level: conformance.Must, Says: "the share APIs have version 0 alone, that of Kafka 4.0: the application is told, and version 0 is not sent", Source: kip932, Setup: Setup{Late: true}, Within: 40 * time.Second,
		run: func(s *Stage) {
			s.versions(-1, 0, 0, shareKeys...)
			s.Launch()
			s.Run()
			s.MustTold(30*time.Second, 0)
			s.none(heartbeatKey)
		}},
	{ID: "neg.06", Level: conformance.Must, Says: "the share APIs have versions that no client knows yet: it uses what it knows", Source: "KIP-35", Setup: Setup{Late: true}, Expects: []string{"wire.api.3"}, run: func(s *Stage) {
		s.versions(-1, 1, 5, heartbeatKey)
		s.versions(-1, 1, 9, shareFetchKey, shareAckKey)
		s.Launch()
		s.Steady()
	}},
	{ID: "neg.07", Level: conformance.Must, Says: "one node of three has version 1, the others 2: the version is that of the connection", Source: "KIP-35", Setup: Setup{Late: true, Brokers: 3, Topics: map[string]int{"t": 3}},
		run: func(s *Stage) {
			s.versions(2, 1, 1, shareFetchKey, shareAckKey)
			s.Launch()
			s.Run()
			for p := range int32(3) {
				s.Drained(20*time.Second, "t", p)
			}
			if x := s.first(0, shareFetchKey, func(x *Seen) bool { return x.Node == 2 && x.Version > 1 }); x != nil {
				s.Failf("ShareFetch version %d is sent to a node that has 1", x.Version)
			}
		}},
	{ID: "neg.08", Level: conformance.Must, Says: "ApiVersions of a later version is answered UNSUPPORTED_VERSION with a body of version 0: the client falls back", Source: "KIP-511", Setup: Setup{Late: true}, run: func(s *Stage) {
		s.OnAsk(func(x *proxy.Exchange) {
			if x.Header.Key == apiVersionsKey && x.Header.Version >= 4 {
				p := kmsg.NewPtrApiVersionsResponse()
				p.Version, p.ErrorCode = 0, 35
				p.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: apiVersionsKey, MinVersion: 0, MaxVersion: 3}}
				x.Response = p
			}
		})
		s.Launch()
		s.Steady()
	}},
	{ID: "neg.09", Level: conformance.Must, Says: "ApiVersions is answered 3 s late on every connection: nothing is asked before", Source: "KIP-35", Setup: Setup{Late: true}, Within: 50 * time.Second, run: func(s *Stage) {
		s.OnAsk(func(x *proxy.Exchange) {
			if x.Header.Key == apiVersionsKey {
				pause(x, 3*time.Second)
			}
		})
		s.Launch()
		s.Run()
		s.steady(40 * time.Second)
	}},
	{ID: "neg.10", Level: conformance.Should, Says: "the connection is closed at ApiVersions ten times: the client backs off, then consumes", Source: "KIP-144", Setup: Setup{Late: true}, Within: 60 * time.Second, run: func(s *Stage) {
		var n atomic.Int32
		s.OnAsk(func(x *proxy.Exchange) {
			if x.Header.Key == apiVersionsKey && n.Add(1) <= 10 {
				x.Close = true
			}
		})
		began := time.Now()
		s.Launch()
		s.Run()
		s.steady(45 * time.Second)
		connects := s.Connects(-1, began, began.Add(3*time.Second))
		s.Shouldf(connects <= 25, "%d connections are opened in 3 s while they are closed at once", connects)
	}},
	{ID: "neg.11", Level: conformance.Must, Says: "share groups are switched off (share.version 0): the application is told, and the client does not go on asking", Source: kip932, Setup: Setup{Features: map[string]int16{"share.version": 0}, Late: true, Records: -1},
		Within: 40 * time.Second, run: func(s *Stage) {
			s.Launch()
			s.Run()
			s.MustTold(20*time.Second, 0)
			at := time.Now()
			s.Wait(10 * time.Second)
			s.Shouldf(s.Rate(heartbeatKey, at, time.Now()) <= 0.5, "%.0f heartbeats a second go on", s.Rate(heartbeatKey, at, time.Now()))
		}},
	{ID: "neg.12", Level: conformance.Must, Says: "every answer has tagged fields at every level that no client knows: they are skipped", Source: "KIP-482", Setup: Setup{Late: true}, run: func(s *Stage) {
		s.Edit(func(x *proxy.Exchange) bool {
			if !x.Response.IsFlexible() {
				return false
			}
			setTags(reflect.ValueOf(x.Response))
			return true
		})
		s.Launch()
		s.Steady()
		s.Resumes(10 * time.Second)
	}},
	{ID: "neg.13", Level: conformance.Must, Says: "ApiVersions tells of no features: the client decides by the APIs that are offered", Source: "KIP-584", Setup: Setup{Late: true}, run: func(s *Stage) {
		s.Edit(func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ApiVersionsResponse)
			if ok {
				p.SupportedFeatures, p.FinalizedFeatures, p.FinalizedFeaturesEpoch = nil, nil, -1
			}
			return ok
		})
		s.Launch()
		s.Steady()
	}},
	{ID: "neg.15", Level: conformance.Should, Says: "Metadata has no version with topic ids: the application is told or the client is idle", Source: "KIP-516", Setup: Setup{Late: true}, run: func(s *Stage) {
		s.versions(-1, 0, 9, metadataKey)
		began := time.Now()
		s.Launch()
		s.Run()
		s.Calm(metadataKey, began, 10*time.Second)
	}},
}

// none fails the case where a request of an API was sent.
func (s *Stage) none(key int16) {
	if x := s.first(0, key, nil); x != nil {
		s.Failf("%s version %d is sent", kmsg.NameForKey(key), x.Version)
	}
}

// pause waits, unless the connection ends before.
func pause(x *proxy.Exchange, d time.Duration) {
	select {
	case <-time.After(d):
	case <-x.Context.Done():
	}
}

// setTags puts tagged fields into every part of a message.
func setTags(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			setTags(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if e := v.Index(i); e.Kind() == reflect.Struct {
				setTags(e)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if tags, ok := v.Field(i).Addr().Interface().(*kmsg.Tags); ok {
				tags.Set(500, []byte{1, 2, 3})
				tags.Set(12345, nil)
				continue
			}
			setTags(v.Field(i))
		}
	}
}
