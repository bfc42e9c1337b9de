/* Made of the schemas beside this file: test/docs/config-schemas.test.ts. */

/** Content of `postern.toml`. */
export interface PosternFile {
  /** prefix of SERVICE-ID, CALL-ID and CALLER @default "X-PLATFORM" */
  metadata_prefix?: string;
  /** private address of /livez, /readyz and /metrics; --ops-address overrides it */
  ops_address?: string;
  /** seconds that a gateway still serves after SIGTERM, while /readyz answers 503 @default 5 */
  drain_secs?: number;
  redis?: {
    /** name of the deployment, which begins every key and channel; deployments on one Redis need different ones @default "postern" */
    name?: string;
    /** id of the deployment whose data Redis must hold: a day and a name (docs/backup.md) */
    deployment_id?: string;
    /** keeps what the process saw of Redis, so that it refuses an old copy also after its restart */
    state_file?: string;
    /** parts that share the load on this Redis; fixed at the first start (docs/redis.md#partitions) */
    partitions?: number | readonly {
      url?: string;
      master_name?: string;
    }[];
    /** URL, with the password if there is one; rediss:// for TLS, unix:///path for a socket; or env:VAR, or file:/path */
    url?: string;
    /** instead of url; with "strict" a failover can lose accepted calls (docs/redis.md) */
    sentinels?: readonly string[];
    /** name of the master that the sentinels watch */
    master_name?: string;
    /** nodes of a Redis Cluster, instead of url; with "strict" a failover can lose accepted calls (docs/redis.md) */
    nodes?: readonly string[];
    /** login, if url has none */
    username?: string;
    password?: string;
    /** all optional */
    tls?: {
      ca?: string;
      cert?: string;
      key?: string;
      server_name?: string;
    };
    /** login of the sentinels themselves */
    sentinel_username?: string;
    sentinel_password?: string;
    /** TLS of the sentinels themselves, with the keys of tls */
    sentinel_tls?: {
      ca?: string;
      cert?: string;
      key?: string;
      server_name?: string;
    };
    /** addresses that nodes or sentinels name, and those to use instead */
    nat_map?: Readonly<Record<string, string>>;
    /** or "replicated", with sentinels or nodes; "managed", if a service is durable and hides its settings; "relaxed": Redis may lose calls that were answered with 202 @default "strict" */
    durability?: "strict" | "replicated" | "managed" | "relaxed";
    /** with "replicated": no call is accepted with fewer replicas; all that there are must confirm it */
    min_replicas?: number;
  };
  runner?: {
    url?: string;
    /** signs the producer's requests; a secret or a list, of which the first one signs */
    secret?: string | readonly string[];
    /** time-out of one attempt; below producer.lock_ms @default 10000 */
    timeout_ms?: number;
    /** its own Redis; by default, that of [redis] */
    redis?: {
      url?: string;
      sentinels?: readonly string[];
      master_name?: string;
      nodes?: readonly string[];
      username?: string;
      password?: string;
      tls?: {
        ca?: string;
        cert?: string;
        key?: string;
        server_name?: string;
      };
      sentinel_username?: string;
      sentinel_password?: string;
      sentinel_tls?: {
        ca?: string;
        cert?: string;
        key?: string;
        server_name?: string;
      };
      nat_map?: Readonly<Record<string, string>>;
      /** @default "strict" */
      durability?: "strict" | "replicated" | "managed" | "relaxed";
      min_replicas?: number;
    };
    /** seconds that the runner remembers an Idempotency-Key @default 2592000 */
    memory_secs?: number;
    /** seconds that an answer is kept in full, if there is room, and that its call is listed */
    answer_secs?: number;
    /** largest answer that is kept in full @default 262144 */
    result_bytes_max?: number;
    /** limit for all answers kept in full; the oldest are evicted @default 268435456 */
    answers_bytes_max?: number;
    bind_address?: string;
    /** after this time, a handler whose process died may run again @default 30000 */
    lease_ms?: number;
    /** requests at once in each process, above which it answers 429; and long jobs at once @default 100 */
    concurrency?: number;
    /** runs of a long job that may end with an error, before the call is failed @default 20 */
    long_attempts?: number;
    /** wait between them, as producer.backoff */
    long_backoff?: {
      /** @default 1000 */
      base_ms?: number;
      /** @default 900000 */
      cap_ms?: number;
    };
    /** ops addresses of gateways with results.deliveries, to which it sends the results of long jobs */
    deliver_to?: readonly string[];
  };
  runners?: Readonly<Record<string, {
    url: string;
    secret?: string | readonly string[];
    /** as runner.timeout_ms @default 10000 */
    timeout_ms?: number;
  }>>;
  jobs?: Readonly<Record<string, {
    /** shown in the console, as report (7/1); of a job with a price, name it in job_pricing.toml */
    name?: string;
    /** calls in flight, over all producers */
    concurrency?: number;
    /** throttle, over all producers: at most 100 calls in a window of 100 / 50 s */
    rate?: {
      per_second: number;
      burst?: number;
    };
    attempts?: number;
    backoff?: {
      base_ms?: number;
      cap_ms?: number;
    };
    /** below producer.lock_ms */
    timeout_ms?: number;
    /** a name of [runners.<name>] */
    runner?: string;
  }>>;
  producer?: {
    /** calls in flight in each producer, over all jobs; one job gets at most half @default 100 */
    concurrency?: number;
    /** attempts of a call, before it is failed @default 20 */
    attempts?: number;
    /** time after which the calls of a dead producer wait in the queue again @default 20000 */
    lock_ms?: number;
    /** stored size of the calls in flight in each producer; base64 makes a body a third larger. The default is less below 512 MiB of memory @default 268435456 */
    body_budget_bytes?: number;
    /** wait before the next attempt, with full jitter: 0 to min(cap, base * 2^(attempt - 1)) */
    backoff?: {
      /** @default 1000 */
      base_ms?: number;
      /** @default 900000 */
      cap_ms?: number;
    };
  };
  /** results of the jobs that keep them: see keep_result in the other files */
  results?: {
    /** seconds that a result is kept, if there is room @default 86400 */
    secs?: number;
    /** largest result, at most 4 MiB; of a larger one, only the fact is kept @default 262144 */
    result_bytes_max?: number;
    /** limit for all results together; the oldest are evicted @default 268435456 */
    bytes_max?: number;
    /** true: gateways accept results from runners at their ops address, and read the runners' secrets @default false */
    deliveries?: boolean;
    /** longest time that a client may wait for a result; 0: no waiting @default 30 */
    wait_secs_max?: number;
    /** clients that may wait at one gateway, at most half of http.connections; the others get 202 at once @default 10000 */
    waiters_max?: number;
    /** call streams at one gateway, at most a quarter of http.connections; 0 disables them @default 1000 */
    streams_max?: number;
    /** call streams for one call; clients without a right to the call are counted separately @default 16 */
    streams_per_call_max?: number;
    /** signs result tokens; of a list, the first one signs and all are accepted */
    secret?: string | readonly string[];
  };
  callbacks?: {
    /** whsec_ and base64; the keys that sign callbacks are derived from it. Each secret of a list signs, so that one can be rotated */
    secret?: string | readonly string[];
    /** private addresses and ranges that may be called, also over http */
    allow_cidrs?: readonly string[];
    /** time-out of one attempt; below producer.lock_ms @default 10000 */
    timeout_ms?: number;
    /** attempts to one receiver at once, over all producers @default 10 */
    concurrency?: number;
    /** attempts of a callback, before it is failed @default 24 */
    attempts?: number;
    /** wait between them, as producer.backoff */
    backoff?: {
      /** @default 5000 */
      base_ms?: number;
      /** @default 21600000 */
      cap_ms?: number;
    };
    /** largest result in a callback; the receiver asks for a larger one @default 16384 */
    result_bytes_max?: number;
  };
  /** data for operators; no call needs it */
  console?: {
    /** every 10 s, each process writes its state and its counters to Redis @default true */
    report?: boolean;
    /** seconds that injected calls can be found; 0: not at all @default 86400 */
    history_secs?: number;
    /** injected calls that are kept; the oldest are evicted @default 500000 */
    history_max?: number;
    /** limit for all of them together @default 67108864 */
    history_bytes_max?: number;
  };
  /** above these, a gateway answers 503 before it reads the request */
  limits?: {
    /** waiting, delayed and active calls of the gateway's origin, over all jobs; failed calls are not counted @default 1000000 */
    queue_depth_max?: number;
    /** stored size of all calls, of all origins; failed calls are counted @default 4294967296 */
    queue_bytes_max?: number;
    /** age of a job's oldest call without an attempt; closes only this job; by default, no limit */
    oldest_age_secs_max?: number;
    /** used share of Redis' maxmemory @default 0.85 */
    redis_memory_ratio_max?: number;
    /** time after which the outcome of a write is unknown; a large write has 1 s more for each 2 MiB @default 5000 */
    enqueue_timeout_ms?: number;
    /** receivers that requests to one endpoint, or of one payer, may name by wildcards of callback_hosts; 5000 in all @default 100 */
    callback_receivers_max?: number;
  };
  /** limits on unauthenticated requests */
  http?: {
    /** addresses and ranges of your own proxies, such as ["10.0.0.0/8", "2001:db8::7"] */
    trusted_proxies?: readonly string[];
    /** header with which they name the client; or "Forwarded" (RFC 7239) */
    forwarded_header?: "X-Forwarded-For" | "Forwarded";
    /** connections of a gateway; above it, new ones replace unauthenticated ones @default 4096 */
    connections?: number;
    /** limit for all bodies in flight, at least one largest body; above it, the largest unauthenticated ones are cut. The default is less below 800 MiB of memory @default 268435456 */
    body_budget_bytes?: number;
    /** seconds that a connection may be idle; more than the idle time-out of your load balancer @default 250 */
    keep_alive_secs?: number;
  };
}

/** Content of `webhooks.toml`. */
export interface WebhooksFile {
  bind_address?: string;
  /** @default 1048576 */
  body_limit_bytes?: number;
  /** seconds in which a whole request must arrive @default 15 */
  request_timeout_secs?: number;
  /** seconds that a delivery id is remembered after the end of its call @default 604800 */
  idempotency_window_secs?: number;
  /** wrong credentials of one address that are answered with 401; above it, with 429 @default 60 */
  refusals_per_minute?: number;
  endpoints: readonly {
    path: string;
    preset?: "github" | "gitlab" | "gitea" | "bitbucket" | "jira" | "linear" | "circleci" | "buildkite" | "vercel" | "npm" | "trello" | "google-pubsub" | "aws-sns" | "azure-event-grid" | "cloudevents" | "microsoft-graph" | "standard-webhooks" | "svix" | "clerk" | "resend" | "openai" | "replicate" | "polar" | "alchemy" | "quicknode" | "helius" | "tenderly" | "moralis" | "coinbase-cdp" | "stripe" | "paypal" | "shopify" | "paddle" | "razorpay" | "square" | "coinbase-commerce" | "woocommerce" | "lemon-squeezy" | "recurly" | "adyen-platforms" | "checkout-com" | "gocardless" | "paystack" | "authorize-net" | "quickbooks" | "xero" | "slack" | "discord-interactions" | "discord-events" | "twilio" | "sendgrid" | "zoom" | "meta" | "x" | "twitch" | "telegram" | "mailgun" | "postmark" | "intercom" | "zendesk" | "teams-outgoing" | "sentry" | "pagerduty" | "grafana" | "alertmanager" | "datadog" | "tradingview" | "launchdarkly" | "okta" | "dropbox" | "box" | "asana" | "airtable" | "typeform" | "tally" | "docusign" | "nylas" | "workos" | "calendly" | "cal-com" | "hubspot" | "hubspot-v1" | "hubspot-v2";
    job_id?: number;
    route_by?: {
      header?: string;
      field?: string;
      jobs: Readonly<Record<string, number>>;
      /** a request without a match is answered as a success, and dropped; "refuse": 404 @default "drop" */
      unmatched?: "drop" | "refuse";
    };
    /** A filter in CEL: only requests for which it is true become calls */
    when?: string;
    /** name for the runner, in X-WEBHOOK-NAME */
    name?: string;
    /** accepted methods; default ["POST"] */
    methods?: readonly ("POST" | "PUT")[];
    /** a repeat of an id is the same call */
    delivery_id?: string;
    /** type of the event for the runner, in X-WEBHOOK-EVENT */
    event_type?: string;
    /** headers that the runner gets unchanged */
    forward_headers?: readonly string[];
    /** "decode": gzip, deflate and br are accepted, and the runner gets the decoded bytes @default "refuse" */
    encoded_bodies?: "refuse" | "decode";
    /** answer that this sender accepts as a success; it is sent once the call is on disk */
    answer?: {
      /** 200, 201, 202 or 204 @default 202 */
      status?: 200 | 201 | 202 | 204;
      /** the Content-Type of the answer */
      content_type?: string;
      /** the body of the answer; may be empty */
      body?: string;
      /** 429 or 503: status above a rate limit. Use the one after which this sender retries @default 429 */
      limited?: 429 | 503;
      /** 429 or 401: status after too many wrong credentials of one address. Use 401 if the sender tests the endpoint with wrong ones @default 429 */
      refusals_limited?: 401 | 429;
    };
    /** request with which the sender verifies that the URL is yours; it is answered, and never queued */
    handshakes?: readonly {
      /** `"GET"`, `"HEAD"`, `"OPTIONS"` or `"POST"` @default "POST" */
      method?: "GET" | "HEAD" | "OPTIONS" | "POST";
      /** placeholders and their values; a `*` at the end of a value matches any text. Fields of the body are allowed only with `proof = "credential"` */
      when?: Readonly<Record<string, string>>;
      /** fields of the whole body, a form of at most 1 KiB. A field with the value `*` is optional. Allowed only with `proof = "none"` */
      form?: Readonly<Record<string, string>>;
      /** `"none"`: a request with the method of a delivery must have no credential. `"credential"`: the request must have a valid one. `{ verify_token = "name" }`: the query parameter that must be `verify_token`. `{ secret_header = "X-Name" }`: the header of the secret, which is accepted while `postern endpoints open` runs */
      proof: "none" | "credential" | {
        verify_token: string;
      } | {
        secret_header: string;
      };
      /** 200 or 204 @default 200 */
      status?: 200 | 204;
      /** the Content-Type of the answer */
      content_type?: string;
      /** answer, with placeholders. An echoed value is at most 1024 characters of visible ASCII */
      body?: string;
      /** members of a JSON object; the value `{mac}` is the MAC */
      json?: Readonly<Record<string, "{mac}" | string | number>>;
      /** headers of the answer, with placeholders */
      headers?: Readonly<Record<string, string>>;
      /** `{ of, encoding = "hex" or "base64", prefix }`: MAC of a text with the first secret. `of` and `encoding` are required */
      mac?: {
        of: string;
        encoding: "hex" | "base64";
        prefix?: string;
      };
    }[];
    /** the URL as it is written at the sender, if the sender signs it */
    public_url?: string;
    /** header of the delivery id: a repeat of an id is the same call. Short for delivery_id = "{header:X-Delivery-Id}" */
    idempotency_header?: string;
    idempotency_window_secs?: number;
    /** true: the runner gets the query, in X-WEBHOOK-QUERY @default false */
    forward_query?: boolean;
    body_limit_bytes?: number;
    /** token of a handshake, such as the first one below */
    verify_token?: string;
    /** addresses and ranges that may send; by default, all */
    allow_ips?: readonly string[];
    /** limit for all requests with a valid credential */
    rate_limit?: {
      per_second: number;
      burst?: number;
    };
    /** limit for those of one address */
    rate_limit_per_address?: {
      per_second: number;
      burst?: number;
    };
    /** true: postern rejected also shows the first 4 KiB of a refused body @default false */
    keep_rejected_bodies?: boolean;
    /** true: the runner's result is kept for a time; needs results.secret of postern.toml @default false */
    keep_result?: boolean;
    /** keeps delivered calls whole, for the console; bytes_max for all of the endpoint */
    keep_delivered?: {
      secs: number;
      bytes_max: number;
    };
    /** the answer is the runner's result, for senders that show it; "accepted", the default: a 202 at once @default "accepted" */
    respond?: "accepted" | "result";
    /** seconds to wait for the result, before a 202 is sent; Slack and Discord give up after 3 s, so set 2 for them */
    wait_secs?: number;
    /** receiver of a callback at the end of each call; needs [callbacks] of postern.toml */
    callback_url?: string;
    /** hosts on which a request may name a receiver instead, in X-PLATFORM-CALLBACK */
    callback_hosts?: readonly string[];
    auth?: "none" | "bearer" | "basic" | "api-key" | "token" | "hmac-sha256" | "signature" | "jwt" | "http-signature" | "aws-sns" | "paypal";
    /** id of the webhook, as PayPal shows it */
    webhook_id?: string;
    /** true: deliveries of PayPal's sandbox, and no others @default false */
    sandbox?: boolean;
    /** ARNs of the topics that may send. Their subscriptions are confirmed */
    topics?: readonly string[];
    /** in a list, all secrets are accepted, so that one can be rotated without a gap */
    secret?: string | readonly string[];
    http_signature?: {
      /** `"ed25519"`, `"ecdsa-p256-sha256"`, `"rsa-pss-sha512"`, `"hmac-sha256"`: the only one that is accepted */
      algorithm: "ed25519" | "ecdsa-p256-sha256" | "rsa-pss-sha512" | "hmac-sha256";
      /** components that a signature must cover, with `content-digest`. It may cover more */
      components?: readonly string[];
      /** tag of the signatures that count. Others are ignored */
      tag?: string;
      /** URL of the sender's key directory, a JWK Set: https, or http on this machine. `keyid` is the `kid` of a key, or its JWK thumbprint (RFC 7638) */
      directory?: string;
      /** longest age of a signature, in seconds since its `created` @default 300 */
      past_secs?: number;
      /** how far `created` may be ahead of the gateway's clock, in seconds @default 60 */
      future_secs?: number;
    };
    /** iss of the token; in a list, each is accepted */
    issuer?: string | readonly string[];
    /** aud of the token */
    audience?: string;
    /** the issuer's public keys (JSON Web Key Set); or file:/path of them */
    jwks?: string;
    /** accepted algorithms; also RS384, RS512, PS256, PS384, PS512, ES384, ES512 and EdDSA */
    algorithms?: readonly ("RS256" | "RS384" | "RS512" | "PS256" | "PS384" | "PS512" | "ES256" | "ES384" | "ES512" | "EdDSA")[];
    /** claims that the token must have, with exactly these values */
    claims?: Readonly<Record<string, string | number | boolean>>;
    signature?: {
      /** header of the signature; of a list, the first that the request has */
      header?: string | readonly string[];
      /** query parameter of the signature */
      query?: string;
      /** JSON Pointer of the signature in the body */
      field?: string;
      /** `true`: any of the headers may have the valid signature */
      any_header?: boolean;
      /** exact text before the signature */
      prefix?: string;
      /** `true`: the prefix may be missing */
      prefix_optional?: boolean;
      /** `{ separator = ",", assign = "=", key = "v1" }`: the value is a list, in which one valid item with this key is enough. Without `key`, it may be any item in the form of a signature, as in `v0=<other>,<signature>`. `first` names a first item without a key, so that `timestamp` can read it. `separator` is required; the default of `assign` is `"="` */
      list?: {
        separator: string;
        assign?: string;
        key?: string;
        first?: string;
      };
      /** encoding of the signature, docs/senders.md */
      encoding?: "hex" | "hex-upper" | "hex-any-case" | "0x-hex" | "base64";
      /** `hmac-sha1`, `hmac-sha256`, `hmac-sha512`, `sha256`, `keccak-256`, `ed25519`, `ecdsa-p256` (P-256, SHA-256, DER), `equal` (the secret itself) */
      algorithm: "hmac-sha1" | "hmac-sha256" | "hmac-sha512" | "sha256" | "keccak-256" | "ed25519" | "ecdsa-p256" | "equal";
      /** form of `secret`, docs/senders.md */
      secret_format?: "text" | "hex" | "base64" | "whsec" | "base64-or-whsec" | "text-or-whsec" | "ed25519-hex" | "ed25519-whpk" | "spki";
      /** the signed text, with placeholders */
      signed?: string;
      /** `true`, only with `signed = "{url}{form}"`: as Twilio signs. `{url}` may have its port or not. If the query has `bodySHA256`, that must be the SHA-256 of the body, and `{form}` is empty. Without `bodySHA256`, the sorted form must begin with `AccountSid`. The query must not have `AccountSid`. It may continue the query of `public_url` after `&`. */
      twilio?: boolean;
      /** time of signing. The signature must cover it */
      timestamp?: {
        /** header of the time */
        header?: string;
        /** item of the signature's list with the time */
        pair?: string;
        /** JSON Pointer of the time in the body */
        field?: string;
        /** form of the time, docs/senders.md */
        unit: "s" | "ms" | "rfc3339" | "go";
        /** longest age, in seconds */
        past_secs?: number;
        /** how far the time may be ahead of the gateway's clock, in seconds */
        future_secs?: number;
      };
      /** headers that must have exactly these values */
      require?: Readonly<Record<string, string>>;
    } | readonly {
      /** header of the signature; of a list, the first that the request has */
      header?: string | readonly string[];
      /** query parameter of the signature */
      query?: string;
      /** JSON Pointer of the signature in the body */
      field?: string;
      /** `true`: any of the headers may have the valid signature */
      any_header?: boolean;
      /** exact text before the signature */
      prefix?: string;
      /** `true`: the prefix may be missing */
      prefix_optional?: boolean;
      /** `{ separator = ",", assign = "=", key = "v1" }`: the value is a list, in which one valid item with this key is enough. Without `key`, it may be any item in the form of a signature, as in `v0=<other>,<signature>`. `first` names a first item without a key, so that `timestamp` can read it. `separator` is required; the default of `assign` is `"="` */
      list?: {
        separator: string;
        assign?: string;
        key?: string;
        first?: string;
      };
      /** encoding of the signature, docs/senders.md */
      encoding?: "hex" | "hex-upper" | "hex-any-case" | "0x-hex" | "base64";
      /** `hmac-sha1`, `hmac-sha256`, `hmac-sha512`, `sha256`, `keccak-256`, `ed25519`, `ecdsa-p256` (P-256, SHA-256, DER), `equal` (the secret itself) */
      algorithm: "hmac-sha1" | "hmac-sha256" | "hmac-sha512" | "sha256" | "keccak-256" | "ed25519" | "ecdsa-p256" | "equal";
      /** form of `secret`, docs/senders.md */
      secret_format?: "text" | "hex" | "base64" | "whsec" | "base64-or-whsec" | "text-or-whsec" | "ed25519-hex" | "ed25519-whpk" | "spki";
      /** the signed text, with placeholders */
      signed?: string;
      /** `true`, only with `signed = "{url}{form}"`: as Twilio signs. `{url}` may have its port or not. If the query has `bodySHA256`, that must be the SHA-256 of the body, and `{form}` is empty. Without `bodySHA256`, the sorted form must begin with `AccountSid`. The query must not have `AccountSid`. It may continue the query of `public_url` after `&`. */
      twilio?: boolean;
      /** time of signing. The signature must cover it */
      timestamp?: {
        /** header of the time */
        header?: string;
        /** item of the signature's list with the time */
        pair?: string;
        /** JSON Pointer of the time in the body */
        field?: string;
        /** form of the time, docs/senders.md */
        unit: "s" | "ms" | "rfc3339" | "go";
        /** longest age, in seconds */
        past_secs?: number;
        /** how far the time may be ahead of the gateway's clock, in seconds */
        future_secs?: number;
      };
      /** headers that must have exactly these values */
      require?: Readonly<Record<string, string>>;
    }[];
    /** "decoded", for a sender that signs before it compresses @default "received" */
    signature_over?: "received" | "decoded";
    token_query?: string;
    token_field?: string;
    /** @default "X-API-Key" */
    api_key_header?: string;
    username?: string;
  }[];
}

/** Content of `x402.toml`. */
export interface X402File {
  bind_address?: string;
  /** no default: URL of this gateway for clients; https, with its path if there is one */
  public_url: string;
  /** The facilitators, which verify and settle payments: either [[facilitators]] below, or facilitator_url, a URL or a list of URLs. They must be https, or http on this machine. One of the two keys is required. With one facilitator_url, facilitator_headers holds its credentials: */
  facilitator_url?: string | readonly string[];
  facilitator_headers?: Readonly<Record<string, string>>;
  facilitators?: readonly {
    url: string;
    headers?: Readonly<Record<string, string>>;
    /** Coinbase's facilitator is at https://api.cdp.coinbase.com/platform/v2/x402. It requires an API key, which signs each request: */
    cdp?: {
      key_id: string;
      key_secret: string;
    };
  }[];
  /** Signs the quotes. It must be the same on every replica. In a list, the first secret signs and all are accepted. */
  quote_secret: string | readonly string[];
  /** Ed25519 keys (PEM or JWK). The first signs a receipt of each payment; all are */
  receipt_keys?: string | readonly string[];
  /** seconds that a quoted price holds @default 300 */
  quote_ttl_secs?: number;
  /** seconds for which an offer asks an authorization to be valid; a payment is settled for at most this long after its claim @default 120 */
  max_timeout_secs?: number;
  /** longest time that an authorization may be valid: some clients always sign for an hour @default 3660 */
  payment_window_secs_max?: number;
  /** most offers in a 402; by default, a 402 offers every token. See docs/payments.md, "Many tokens" */
  max_offers?: number;
  /** offers say in extra.paymentFlow that a payment settles before its job runs; false: for clients that refuse it @default true */
  offer_payment_flow?: boolean;
  /** payments of one payer with an unknown outcome @default 8 */
  open_payments_per_payer?: number;
  /** verify requests of a payer in a minute that lead to no payment, at each replica; above it, 429 @default 30 */
  unpaid_verifies_per_payer?: number;
  /** the same for a client address; see [http] trusted_proxies of postern.toml @default 600 */
  unpaid_verifies_per_address?: number;
  /** true: rpc_url is not required, and only the facilitator's word decides about a payment @default false */
  trust_facilitator?: boolean;
  /** addresses whose signed quotes (X-PLATFORM-QUOTE) are accepted; they require a quote_domain */
  quote_operators?: readonly string[];
  quote_domain?: {
    /** @default "TangleQuote" */
    name?: string;
    /** @default "1" */
    version?: string;
    chain_id: number;
    verifying_contract: string;
  };
  /** mode of jobs without a policy; "disabled": only jobs with a policy are sold @default "public_paid" */
  default_invocation_mode?: "public_paid" | "disabled";
  /** @default 1048576 */
  body_limit_bytes?: number;
  /** seconds in which a whole request must arrive @default 15 */
  request_timeout_secs?: number;
  /** time-out of one verify request @default 10 */
  facilitator_timeout_secs?: number;
  /** time-out of one settle request; its outcome is then unknown, and the chain is queried @default 20 */
  settle_timeout_secs?: number;
  /** no default */
  rate_per_native_unit?: string | {
    source: "fixed";
    rate: string;
  } | {
    source: "chainlink";
    rpc_url: string;
    feed: string;
    max_age_secs: number;
    /** @default false */
    invert?: boolean;
    sequencer_feed?: string;
    /** @default 3600 */
    sequencer_grace_secs?: number;
  } | {
    source: "uniswap_v3_twap";
    rpc_url: string;
    pool: string;
    native_token: string;
    /** @default 1800 */
    window_secs?: number;
    /** @default 600 */
    max_age_secs?: number;
  } | {
    source: "http_json";
    url: string;
    pointer: string;
    headers?: Readonly<Record<string, string>>;
  } | {
    source: "median";
    of: readonly ({
      source: "fixed";
      rate: string;
    } | {
      source: "chainlink";
      rpc_url: string;
      feed: string;
      max_age_secs: number;
      /** @default false */
      invert?: boolean;
      sequencer_feed?: string;
      /** @default 3600 */
      sequencer_grace_secs?: number;
    } | {
      source: "uniswap_v3_twap";
      rpc_url: string;
      pool: string;
      native_token: string;
      /** @default 1800 */
      window_secs?: number;
      /** @default 600 */
      max_age_secs?: number;
    } | {
      source: "http_json";
      url: string;
      pointer: string;
      headers?: Readonly<Record<string, string>>;
    })[];
    max_deviation_bps: number;
    min_sources?: number;
  };
  /** default 0 */
  markup_bps?: number;
  /** hosts on which a paid request may name a receiver, in X-PLATFORM-CALLBACK; */
  callback_hosts?: readonly string[];
  shop?: {
    /** at most 32 characters */
    name?: string;
    /** at most 5, each of at most 32 characters */
    tags?: readonly string[];
    icon_url?: string;
  };
  job_policies?: readonly ({
    service_id: number;
    job_index: number;
    invocation_mode: "public_paid";
  } | {
    service_id: number;
    job_index: number;
    invocation_mode: "disabled";
  } | {
    service_id: number;
    job_index: number;
    invocation_mode: "restricted_paid";
    rpc_url: string;
    contract: string;
    auth_mode: "payer_is_caller";
  } | {
    service_id: number;
    job_index: number;
    invocation_mode: "restricted_paid";
    rpc_url: string;
    contract: string;
    auth_mode: "delegated_caller_signature";
    /** longest time until a signature expires @default 3600 */
    caller_expiry_secs_max?: number;
    /** true: the signature must name public_url, so that no other gateway accepts it @default false */
    bound_caller_proof?: boolean;
  })[];
  accepted_tokens: readonly {
    /** "eip155:" and the chain id; this is Base */
    network: string;
    asset: string;
    symbol: string;
    decimals: number;
    /** your own address; the gateway does not start with the zero address */
    pay_to: string;
    rate_per_native_unit?: string | {
      source: "fixed";
      rate: string;
    } | {
      source: "chainlink";
      rpc_url: string;
      feed: string;
      max_age_secs: number;
      /** @default false */
      invert?: boolean;
      sequencer_feed?: string;
      /** @default 3600 */
      sequencer_grace_secs?: number;
    } | {
      source: "uniswap_v3_twap";
      rpc_url: string;
      pool: string;
      native_token: string;
      /** @default 1800 */
      window_secs?: number;
      /** @default 600 */
      max_age_secs?: number;
    } | {
      source: "http_json";
      url: string;
      pointer: string;
      headers?: Readonly<Record<string, string>>;
    } | {
      source: "median";
      of: readonly ({
        source: "fixed";
        rate: string;
      } | {
        source: "chainlink";
        rpc_url: string;
        feed: string;
        max_age_secs: number;
        /** @default false */
        invert?: boolean;
        sequencer_feed?: string;
        /** @default 3600 */
        sequencer_grace_secs?: number;
      } | {
        source: "uniswap_v3_twap";
        rpc_url: string;
        pool: string;
        native_token: string;
        /** @default 1800 */
        window_secs?: number;
        /** @default 600 */
        max_age_secs?: number;
      } | {
        source: "http_json";
        url: string;
        pointer: string;
        headers?: Readonly<Record<string, string>>;
      })[];
      max_deviation_bps: number;
      min_sources?: number;
    };
    min_rate?: string;
    max_rate?: string;
    /** @default 60 */
    rate_refresh_secs?: number;
    /** @default 900 */
    max_rate_age_secs?: number;
    /** @default 0 */
    markup_bps?: number;
    /** false: not offered in version 1, in which a client rejects all offers if it does not know one network @default true */
    v1?: boolean;
    /** URL of a node, with which payments are confirmed on the chain; better: env:BASE_RPC_URL */
    rpc_url?: string;
    /** proof that queues the call: the transaction's receipt with the transfer; "facilitator": the facilitator's word @default "receipt" */
    settlement_proof?: "receipt" | "facilitator";
    /** depth at which a payment on the chain is confirmed @default 2 */
    confirmations?: number;
    /** addresses that pay refunds, such as your multisig's; pay_to is allowed (docs/payments.md) */
    refund_from?: readonly string[];
    /** depth at which a block is final, if the node does not know the tag "finalized" @default 512 */
    void_depth?: number;
    /** "permit2", for a token without transferWithAuthorization (docs/payments.md, "Permit2") @default "eip3009" */
    transfer_method?: "eip3009" | "permit2";
    /** name in the token's EIP-712 domain; if it is wrong, every payment fails */
    eip3009_name?: string;
    eip3009_version?: string;
    /** event that transferWithAuthorization emits first, AuthorizationUsed; or "transfer_first" (docs/payments.md) @default "used_first" */
    event_order?: "used_first" | "transfer_first";
    eip2612_domain?: {
      name: string;
      version: string;
    };
  }[];
}

/** Content of `pricing.toml`. */
export interface PricingFile {
  /** address for gRPC, without TLS: put a TLS proxy in front */
  bind_address?: string;
  /** address for HTTP and JSON; false disables it */
  http_address?: string | false;
  /** The operator's private key, which signs the quotes: only env:VAR or file:/path. The key has 64 hex digits, with or without 0x. No default. */
  key: string;
  domain: {
    /** @default "TangleQuote" */
    name?: string;
    /** @default "1" */
    version?: string;
    /** no default */
    chain_id: number;
    /** no default; the engine does not start with the zero address */
    verifying_contract: string;
  };
  /** leading zero bits of the client's proof of work; each bit doubles the work @default 20 */
  pow_difficulty?: number;
  /** seconds that a quote is valid @default 300 */
  quote_ttl_secs?: number;
}

/** Content of `job_pricing.toml`. */
export interface JobPricingFile extends Readonly<Record<string, Readonly<Record<string, string | {
  price_wei: string;
  /** name for `postern pay`, unique in this file: 1 to 32 lower-case letters, digits and hyphens */
  name?: string;
  /** one line, at most 256 characters */
  description?: string;
  input_schema?: unknown;
  /** JSON Schema (2020-12, or draft-07 by its $schema) of the body, at most 64 KiB. A paid body that does not fit is refused with 422 and not charged. Write the schema here, or set the path of a file, relative to this one: input_schema = "schemas/report.json". The schema needs input_example, in either form: an example that fits. */
  input_example?: unknown;
  output_schema?: unknown;
  /** output_schema and output_example describe the result in the same forms. Nothing checks a result. With them, schemas and examples of input and output may have 2560 bytes together as JSON, which is what a 402 has room for. */
  output_example?: unknown;
  /** false: the result is not kept for the payer ([results] of postern.toml) @default true */
  keep_result?: boolean;
  /** receiver of a callback at the end of each call; needs [callbacks] of postern.toml */
  callback_url?: string;
}>>>> {}
