//! Which authority a client called.

use std::task::{Context, Poll};

use tonic::codegen::{Service, http};
use tonic::server::NamedService;

/// A service whose handlers find the authority that was called, an [`http::uri::Authority`], among the extensions of the request.
/// tonic itself keeps the URI to itself.
#[derive(Clone)]
pub(crate) struct WithAuthority<S>(pub(crate) S);

impl<S: NamedService> NamedService for WithAuthority<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<http::Request<B>>, B> Service<http::Request<B>> for WithAuthority<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<B>) -> S::Future {
        if let Some(authority) = request.uri().authority().cloned() {
            request.extensions_mut().insert(authority);
        }
        self.0.call(request)
    }
}
