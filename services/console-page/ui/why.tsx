import { CODES } from "../../../shared/platform/errors/codes.ts";
import { problemDetail } from "../../../shared/platform/text/problem-detail.ts";
import { adviceFor } from "../../../shared/webhook-auth/advice.ts";

/** Why something failed: in words, with the code to look it up by, and what the other side has said. */
export function Why({ code, reason }: { code: string; reason: string }) {
  return (
    <span class="why">
      <span class="why-title">
        {titleOf(code)} <code class="muted">{code}</code>
      </span>
      <span class="why-reason muted" title={reason}>
        {problemDetail(reason)}
      </span>
    </span>
  );
}

export function titleOf(code: string): string {
  return Object.hasOwn(CODES, code) ? CODES[code as keyof typeof CODES].title : code;
}

/** The same on one line. */
export function problemWords(code: string, reason: string): string {
  return reason === "" ? titleOf(code) : `${titleOf(code)}: ${problemDetail(reason)}`;
}

/** Why a webhook's credential was refused. */
export function credentialFault(reason: string): string {
  return adviceFor({ code: "webhook.credential_rejected", reason, credential: null })?.says ?? reason;
}
