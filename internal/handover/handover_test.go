package handover_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"kshare/internal/handover"
	"kshare/internal/memorynet"
)

const addr = "127.0.0.1:9092"

var number = handover.Port{Node: 7, Listener: "PLAINTEXT"}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// While ports are kept, a connection that comes in between two listeners is the second one's.
func TestKeptPortWaitsForTheNextListener(t *testing.T) {
	network, ports := &memorynet.Network{}, &handover.Ports{}
	listen := func() (net.Listener, error) { return network.Listen(addr) }
	first, err := ports.Listen(number, listen)
	require.NoError(t, err)
	require.Equal(t, addr, first.Addr().String())
	ports.Keep(true)
	ended := make(chan error)
	go func() {
		_, err := first.Accept()
		ended <- err
	}()
	require.NoError(t, first.Close())
	require.NoError(t, first.Close(), "a second time does nothing")
	require.ErrorIs(t, <-ended, net.ErrClosed)
	_, err = first.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	dialed := make(chan net.Conn)
	go func() {
		client, err := network.Dial(context.Background(), "", addr)
		assert.NoError(t, err)
		dialed <- client
	}()

	second, err := ports.Listen(number, func() (net.Listener, error) { return nil, errors.New("it is open already") })
	require.NoError(t, err)
	ports.Keep(false)
	server, err := second.Accept()
	require.NoError(t, err)
	client := <-dialed
	go func() { _, _ = client.Write([]byte("a")) }()
	_, err = server.Read(make([]byte, 1))
	require.NoError(t, err, "it is the connection that was dialed")
	require.NoError(t, client.Close())
	require.NoError(t, server.Close())
	require.NoError(t, second.Close())
	_, err = network.Dial(context.Background(), "", addr)
	require.ErrorIs(t, err, memorynet.ErrRefused, "a port that is not kept is closed with its listener")

	third, err := ports.Listen(number, listen)
	require.NoError(t, err, "and can be opened again")
	require.NoError(t, third.Close())
}

// A connection that was accepted for a listener which is closed by then is closed with the ports, where no other listener comes.
func TestCloseEndsWhatWaits(t *testing.T) {
	network, ports := &memorynet.Network{}, &handover.Ports{}
	inner := &announced{calls: make(chan struct{}, 1)}
	l, err := ports.Listen(number, func() (_ net.Listener, err error) {
		inner.Listener, err = network.Listen(addr)
		return inner, err
	})
	require.NoError(t, err)
	ports.Keep(true)
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	<-inner.calls
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-ended, net.ErrClosed)
	client, err := network.Dial(context.Background(), "", addr)
	require.NoError(t, err)
	require.NoError(t, ports.Close())
	_, err = client.Read(make([]byte, 1))
	require.Error(t, err)
	require.NoError(t, client.Close())
	require.NoError(t, ports.Close())
}

// announced is a listener that tells when it is to accept.
type announced struct {
	net.Listener
	calls chan struct{}
}

func (a *announced) Accept() (net.Conn, error) {
	a.calls <- struct{}{}
	return a.Listener.Accept()
}

// failing is a listener that fails once and then ends.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, err
}

func (f *failing) Close() error { return nil }

func TestErrorsOfAcceptArePassedOn(t *testing.T) {
	noFiles := errors.New("too many open files")
	ports := &handover.Ports{}
	l, err := ports.Listen(number, func() (net.Listener, error) { return &failing{errs: []error{noFiles}}, nil })
	require.NoError(t, err)
	_, err = l.Accept()
	require.ErrorIs(t, err, noFiles)
	require.NoError(t, l.Close())
	refused := errors.New("address in use")
	_, err = ports.Listen(number, func() (net.Listener, error) { return nil, refused })
	require.ErrorIs(t, err, refused)
}
