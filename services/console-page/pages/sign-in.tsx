import { useEffect, useRef, useState } from "preact/hooks";
import { type Refused, toRefused } from "../api/ask.ts";
import { type SessionView, signIn } from "../api/session.ts";
import { Icon } from "../ui/icons.tsx";
import { ThemeSwitch } from "../ui/theme.tsx";

/** Asks the user for a token and signs in with it. After that, the page opens that the URL names. */
export function SignIn({ onSignedIn }: { onSignedIn: (session: SessionView) => void }) {
  const field = useRef<HTMLInputElement>(null);
  const [refused, setRefused] = useState<Refused | undefined>();
  const [isBusy, setBusy] = useState(false);

  useEffect(() => {
    document.title = "Log in · Postern";
    field.current?.focus();
  }, []);

  const submit = async (event: Event) => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? "";
    setBusy(true);
    try {
      onSignedIn(await signIn(token));
    } catch (error) {
      setRefused(toRefused(error));
      field.current?.select();
      field.current?.focus();
    } finally {
      setBusy(false);
    }
  };

  return (
    <main class="alone">
      <form class="sign-in" onSubmit={submit}>
        <p class="brand">
          <Icon name="gate" /> Postern
        </p>
        <h1>Log in</h1>
        <label for="token">Token</label>
        <input
          id="token"
          ref={field}
          type="password"
          autocomplete="current-password"
          required
          aria-invalid={refused !== undefined}
          aria-describedby="token-help"
        />
        <p class="field-problem" role="alert">
          {refused === undefined ? "" : wordsOf(refused)}
        </p>
        <button type="submit" class="primary" disabled={isBusy}>
          Log in
        </button>
        <p id="token-help" class="muted small">
          Tokens are set in <code>operator.toml</code>. Viewers have read-only access. Operators can also make
          changes.
        </p>
      </form>
      <div class="corner">
        <ThemeSwitch />
      </div>
    </main>
  );
}

function wordsOf({ status, detail }: Refused): string {
  return status === 401 ? "This token is not valid." : detail;
}
