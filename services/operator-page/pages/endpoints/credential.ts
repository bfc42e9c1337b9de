type Words = { says: string; todo: string };

/** By the first word of the reason, which is all that is counted. */
const WORDS: Readonly<Record<string, Words>> = {
  missing: {
    says: "no credential where the endpoint looks",
    todo: "Compare the headers that came with the one that is wanted: the sender may sign elsewhere, or not at all.",
  },
  repeated: {
    says: "the credential came more than once",
    todo: "Something between the sender and here may add a header of that name.",
  },
  malformed: {
    says: "the credential has another shape",
    todo: "Compare the endpoint's preset or signature with what the sender's documentation says of the header.",
  },
  mismatch: {
    says: "the credential does not match",
    todo: "If the sender has a new secret, put it beside the old one, as in secret = [old, new], and start the gateways anew. If the secret is right, something on the way changes bodies. What was refused meanwhile, the sender has to send again.",
  },
  stale: {
    says: "signed too long ago",
    todo: "The sender's clock may be slow, or somebody sends old requests again.",
  },
  early: { says: "signed in the future", todo: "Compare the sender's clock with that of the gateways." },
};

/** Why a credential was refused, for people; undefined of a reason that is none of a credential. */
export function credentialWords(reason: string): Words | undefined {
  return WORDS[reason.split(":", 1)[0] ?? ""];
}
