import { z } from "zod";
import { messageOf } from "../platform/errors/app-error.ts";
import { isKeySetUrl, parseKeySet } from "../webhook-auth/keys/jwk.ts";
import { keysUrlProblem } from "./fields.ts";
import { type SecretSource, secretValue } from "./secrets.ts";

/**
 * Public keys of a token issuer: the URL of its JSON Web Key Set, or the set itself, as text, `env:VAR` or
 * `file:/path`. The value is treated as a secret, because the query of a URL may hold a credential.
 */
export function jwks(from: SecretSource) {
  return secretValue(from)
    .transform((secret, context) => {
      const message = problemOf(secret.reveal());
      if (message !== undefined) context.addIssue(message);
      return secret;
    })
    .meta({ writtenAs: z.string() });
}

function problemOf(text: string): string | undefined {
  if (isKeySetUrl(text)) return keysUrlProblem(text);
  try {
    parseKeySet(text);
    return undefined;
  } catch (error) {
    return `must be the URL of a JSON Web Key Set, or file:/path of one: ${messageOf(error)}`;
  }
}
