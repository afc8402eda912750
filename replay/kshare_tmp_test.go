package replay

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"kshare"
)

type tmpServer struct{ c *kshare.Cluster }

func (s tmpServer) Dial(ctx context.Context) (net.Conn, error) {
	return s.c.Dial(ctx, "tcp", s.c.Addrs()[0])
}
func (s tmpServer) Close() error { return s.c.Close() }

func TestTmp(t *testing.T) {
	for _, name := range []string{"versions", "connection", "topics", "topics-auto", "produce", "order", "codecs", "fetch", "groups", "membership", "share"} {
		t.Run(name, func(t *testing.T) {
			s, err := Load(vectors, name)
			require.NoError(t, err)
			synctest.Test(t, func(t *testing.T) {
				script := Scripts[name]
				time.Sleep(time.Until(Began(script)))
				opts := []kshare.Option{kshare.WithTiming(kshare.TimingKafka), kshare.WithInMemoryNetwork()}
				for k, v := range script.AllConfig() {
					opts = append(opts, kshare.WithConfig(k, v))
				}
				for k, v := range script.Features {
					opts = append(opts, kshare.WithFeature(k, int16(v)))
				}
				c, err := kshare.Start(opts...)
				require.NoError(t, err)
				r, err := Play(s, script, tmpServer{c})
				require.NoError(t, err)
				require.NoError(t, c.Close())
				bad := 0
				for _, p := range r.Steps {
					if len(p.Diffs) > 0 {
						bad++
						show(t, p, true)
					}
				}
				t.Logf("SESSION %s: %d of %d agree", name, len(r.Steps)-bad, len(r.Steps))
			})
		})
	}
}
