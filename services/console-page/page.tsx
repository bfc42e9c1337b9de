import type { ComponentType } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { type Refused, toRefused, whenSignedOut } from "./api/ask.ts";
import { readSession, type Session, SessionProvider } from "./api/session.ts";
import { useRetry } from "./api/use-retry.ts";
import { Frame } from "./frame.tsx";
import { AuditLogPage } from "./pages/audit-log/audit-log.tsx";
import { CallPage } from "./pages/calls/call.tsx";
import { CallsPage } from "./pages/calls/calls.tsx";
import { EndpointPage } from "./pages/endpoints/endpoint.tsx";
import { EndpointsPage } from "./pages/endpoints/endpoints.tsx";
import { FailedPage } from "./pages/failed/failed.tsx";
import { JobPage } from "./pages/jobs/job.tsx";
import { JobsPage } from "./pages/jobs/jobs.tsx";
import { NotFound } from "./pages/not-found.tsx";
import { OverviewPage } from "./pages/overview/overview.tsx";
import { PaymentPage } from "./pages/payments/payment.tsx";
import { PaymentsPage } from "./pages/payments/payments.tsx";
import { RefusedPage } from "./pages/refused/refused.tsx";
import { SignIn } from "./pages/sign-in.tsx";
import type { PlaceName } from "./places.ts";
import { RouteProvider, useFragment } from "./route.ts";
import { Notice } from "./ui/notice.tsx";
import { useZone } from "./ui/zone.tsx";

type Shown = { list: ComponentType; detail?: ComponentType };

const PAGES: Readonly<Record<PlaceName, Shown>> = {
  overview: { list: OverviewPage },
  calls: { list: CallsPage, detail: CallPage },
  failed: { list: FailedPage },
  refused: { list: RefusedPage },
  payments: { list: PaymentsPage, detail: PaymentPage },
  jobs: { list: JobsPage, detail: JobPage },
  endpoints: { list: EndpointsPage, detail: EndpointPage },
  audit: { list: AuditLogPage },
};

/** All of it: who is signed in, and the page that the address names. */
export function Page() {
  // Every time on the page is drawn again.
  useZone();
  const route = useFragment();
  const [session, setSession] = useState<Session | undefined>();
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
    whenSignedOut(() => setSession(undefined));
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
  const pages: Partial<Record<string, Shown>> = PAGES;
  const { list, detail = NotFound } = pages[name] ?? { list: NotFound };
  const Shown = route.path[1] === undefined ? list : detail;
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
