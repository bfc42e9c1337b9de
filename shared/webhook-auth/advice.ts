/** Reasons why a credential is refused. */
export const REASONS = ["missing", "repeated", "malformed", "mismatch", "stale", "early"] as const;
export type Reason = (typeof REASONS)[number];

/**
 * Kinds of credential for which an operator needs different advice. `digest`, `key-pair` and `certificate` are
 * signatures of the request: under a shared secret, by a private key, or by the key of a certificate. The other kinds
 * are a secret or a signed token in the request.
 */
export const CREDENTIAL_KINDS = [
  "bearer",
  "basic",
  "api-key",
  "token",
  "digest",
  "key-pair",
  "certificate",
  "jwt",
] as const;
export type CredentialKind = (typeof CREDENTIAL_KINDS)[number];

export type Advice = {
  /** The fault, as part of a sentence. */
  says: string;
  /** Remedies to try, in sentences. */
  todo: string;
};

type Words = {
  /** Name of the credential in a request. */
  name: string;
  /**
   * Name of the configured value that verifies the credential. Undefined if the operator configures none, as for a
   * certificate.
   */
  secret?: string;
  /** Whether the credential is in the header Authorization. */
  isAuthorization?: boolean;
  /** Whether the credential covers the request's content. */
  isSignature?: boolean;
  /** Whether the credential is a token that its issuer signs and that expires. */
  isIssued?: boolean;
};

const WORDS: Readonly<Record<CredentialKind | "unknown", Words>> = {
  bearer: { name: "token", secret: "token", isAuthorization: true },
  basic: { name: "credential", secret: "password", isAuthorization: true },
  "api-key": { name: "secret", secret: "secret" },
  token: { name: "token", secret: "token" },
  digest: { name: "signature", secret: "secret", isSignature: true },
  "key-pair": { name: "signature", secret: "public key", isSignature: true },
  jwt: { name: "token", secret: "key set", isAuthorization: true, isIssued: true },
  certificate: { name: "signature", isSignature: true },
  unknown: { name: "credential", secret: "secret" },
};

const ADVICE: Readonly<Record<Reason, (words: Words, hasDetail: boolean) => Advice>> = {
  missing: ({ name, isAuthorization }) => ({
    says: `no ${name} in the expected place`,
    todo: `Compare the request with the endpoint's configuration: the sender may put its ${name} in another place, or send none.${
      isAuthorization ? " A proxy may remove the Authorization header." : ""
    }`,
  }),
  repeated: ({ name }) => ({
    says: `the ${name} was sent more than once`,
    todo: "A proxy may add it a second time. The reason says where.",
  }),
  malformed: ({ name, isAuthorization }) => ({
    says: `the ${name} does not have the expected form`,
    todo: `Compare the expected form in the reason with the sender's documentation.${
      isAuthorization ? " The sender may use another Authorization scheme." : ""
    }`,
  }),
  mismatch: (words, hasDetail) => ({
    says: `the ${words.name} does not match`,
    todo: hasDetail
      ? "Compare the difference in the reason with the endpoint's configuration and the sender's settings."
      : mismatchTodo(words),
  }),
  stale: ({ name, isIssued }) => ({
    says: `the ${name} is too old`,
    todo: isIssued
      ? "Compare the issuer's clock with the gateways' clocks. Or the sender keeps a token for longer than its issuer allows, or a stranger replays old requests."
      : "Compare the sender's clock with the gateways' clocks. If only some requests are too old, the sender may retry them with the original time: then increase past_secs. Or a stranger replays old requests.",
  }),
  early: ({ name }) => ({
    says: `the ${name} is from the future`,
    todo: "Compare the sender's clock with the gateways' clocks.",
  }),
};

function mismatchTodo({ secret, isSignature, isIssued }: Words): string {
  if (isIssued)
    return `Compare jwks with the address of the issuer's ${secret}. If jwks is a file, it may lack the newest key. If it is right, the token is of another issuer, or forged.`;
  if (secret === undefined) return "A proxy may change what is signed: the body, a header or the URL.";
  const rotated = `If the sender has a new ${secret}, configure both, as in secret = [old, new], and restart the gateways. Then have the sender send the refused requests again.`;
  if (!isSignature) return `${rotated} Otherwise, compare the sender's ${secret} with the configured one.`;
  return `${rotated} If the ${secret} is right, a proxy changes what is signed: the body, a header or the URL.`;
}

type Refused = { code: string; reason: string; credential: CredentialKind | null };

/** Explains why a credential was refused. Undefined if the request was refused for another reason. */
export function adviceFor({ code, reason, credential }: Refused): Advice | undefined {
  const [word = "", detail] = reason.split(":", 2);
  if (code !== "webhook.credential_rejected" || !Object.hasOwn(ADVICE, word)) return undefined;
  return ADVICE[word as Reason](WORDS[credential ?? "unknown"], detail !== undefined);
}
