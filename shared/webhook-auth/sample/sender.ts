import type { KeyObject } from "node:crypto";
import type { Secret } from "../../platform/crypto/secret.ts";
import type { Proof } from "../auth-modes.ts";
import type { Scheme } from "../signature-scheme.ts";

/** A sender: the URL and the endpoint that it sends to, and the keys with which it proves its deliveries. */
export type Sender = {
  readonly url: URL;
  readonly endpoint: SampledEndpoint;
  readonly secrets: readonly Secret[];
  /** The private key for a scheme that signs with one. Throws without one. */
  readonly privateKey: (scheme: Scheme) => KeyObject;
};

/** The part of an endpoint's configuration that says how its sender sends. */
export type SampledEndpoint = {
  readonly preset?: string | undefined;
  readonly methods: readonly string[];
  readonly proof: Proof;
  readonly public_url?: string | undefined;
  readonly delivery_id?: string | undefined;
  readonly event_type?: string | undefined;
  readonly route_by?:
    | { readonly header?: string | undefined; readonly field?: string | undefined }
    | undefined;
};
