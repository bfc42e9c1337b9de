import { useCallback, useEffect, useState } from "preact/hooks";
import { type Refused, setSignedOutListener, toRefused } from "./api/ask.ts";
import { readSession, SessionProvider, type SessionView } from "./api/session.ts";
import { useRetry } from "./api/use-retry.ts";
import { Frame } from "./frame.tsx";
import { NotFound } from "./pages/not-found.tsx";
import { SignIn } from "./pages/sign-in.tsx";
import { PAGES } from "./pages.ts";
import { Notice } from "./ui/notice.tsx";
import { useZone } from "./ui/zone.tsx";
import { RouteProvider, useFragment } from "./url-fragment.ts";

/** Root component: shows the sign-in form or, once the user has signed in, the page that the URL names. */
export function App() {
  // Subscribes to changes of the time zone, so that the whole page is rendered again with times in the new zone.
  useZone();
  const route = useFragment();
  const [session, setSession] = useState<SessionView | undefined>();
  const [isKnown, setKnown] = useState(false);
  const [refused, setRefused] = useState<Refused | undefined>();

  const look = useCallback(async () => {
    try {
      setSession(await readSession());
      setRefused(undefined);
    } catch (error) {
      setRefused(toRefused(error));
    }
    setKnown(true);
  }, []);

  useRetry(refused, () => void look());
  useEffect(() => {
    setSignedOutListener(() => setSession(undefined));
    void look();
  }, [look]);

  if (!isKnown) return <p class="hidden">Loading</p>;
  if (refused !== undefined) {
    return (
      <main class="alone">
        <Notice tone="bad" title="The console cannot be loaded" action={{ name: "Try again", run: look }}>
          {refused.detail}
        </Notice>
      </main>
    );
  }
  if (session === undefined) return <SignIn onSignedIn={setSession} />;

  const [name = "overview"] = route.path;
  const page = PAGES.find((each) => each.name === name);
  const Shown = (route.path[1] === undefined ? page?.component : page?.detail) ?? NotFound;
  return (
    <SessionProvider value={session}>
      <RouteProvider value={route}>
        <Frame current={name} onSignedOut={() => setSession(undefined)}>
          <Shown key={route.path.join("/")} />
        </Frame>
      </RouteProvider>
    </SessionProvider>
  );
}
