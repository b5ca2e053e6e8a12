"""The user of a request, as authentication.k8s.io/v1 UserInfo."""

from dataclasses import dataclass

from evaluator.core.model.api_status import ReviewedUser

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    """A user with its groups. `extra`: further attributes by key, each with its values."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def anonymous(self) -> bool:
        """Whether the API server did not authenticate this user."""
        return self.name == ANONYMOUS or UNAUTHENTICATED in self.groups

    @property
    def unrestricted(self) -> bool:
        """Whether the user may do everything, as members of system:masters."""
        return MASTERS in self.groups


def authenticated(
    name: str, uid: str, groups: tuple[str, ...], extra: tuple[tuple[str, tuple[str, ...]], ...]
) -> User:
    """Return an authenticated user: a member of system:authenticated, unless the groups already say otherwise."""
    known = name == ANONYMOUS or AUTHENTICATED in groups or UNAUTHENTICATED in groups
    return User(name, uid, groups if known else (*groups, AUTHENTICATED), extra)


def of_review(user: ReviewedUser) -> User:
    """Return the user of a successful TokenReview."""
    extra = tuple((key, tuple(values)) for key, values in (user.extra or {}).items())
    return authenticated(user.username, user.uid, tuple(user.groups or ()), extra)
