import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { ask, Refused } from "./ask.ts";

/** Who is signed in. Only an operator may change something. */
export type Session = {
  name: string;
  role: "viewer" | "operator";
  /** Null where nobody needs a token, so that there is nothing to log out of. */
  ends_at: string | null;
};

const CurrentSession = createContext<Session | undefined>(undefined);
export const SessionProvider = CurrentSession.Provider;

export function useMayOperate(): boolean {
  return useContext(CurrentSession)?.role === "operator";
}

export const useSession = (): Session | undefined => useContext(CurrentSession);

/** Undefined if nobody is signed in. */
export async function readSession(): Promise<Session | undefined> {
  try {
    return await ask<Session>("GET", "session");
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return undefined;
    throw error;
  }
}

/** The token is exchanged for a cookie that no script can read, and forgotten here. */
export function signIn(token: string): Promise<Session> {
  return ask<Session>("POST", "session", { body: { token } });
}

export function signOut(): Promise<void> {
  return ask<void>("DELETE", "session");
}
