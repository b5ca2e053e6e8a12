from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Subscription(_message.Message):
    __slots__ = ("generation", "metrics", "interval_ms", "patterns", "acknowledged")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    generation: int
    metrics: _containers.RepeatedScalarFieldContainer[str]
    interval_ms: int
    patterns: _containers.RepeatedScalarFieldContainer[str]
    acknowledged: _containers.RepeatedCompositeFieldContainer[Acknowledgement]
    def __init__(self, generation: _Optional[int] = ..., metrics: _Optional[_Iterable[str]] = ..., interval_ms: _Optional[int] = ..., patterns: _Optional[_Iterable[str]] = ..., acknowledged: _Optional[_Iterable[_Union[Acknowledgement, _Mapping]]] = ...) -> None: ...

class Acknowledgement(_message.Message):
    __slots__ = ("type", "at")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    type: str
    at: float
    def __init__(self, type: _Optional[str] = ..., at: _Optional[float] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("node_name", "agent_version", "generation", "full", "indices", "values", "absent", "several", "unread", "similar", "matching", "failing_rules", "problems", "causes", "never_had")
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELD_NUMBER: _ClassVar[int]
    SEVERAL_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    SIMILAR_FIELD_NUMBER: _ClassVar[int]
    MATCHING_FIELD_NUMBER: _ClassVar[int]
    FAILING_RULES_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    NEVER_HAD_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    agent_version: str
    generation: int
    full: bool
    indices: _containers.RepeatedScalarFieldContainer[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    absent: _containers.RepeatedScalarFieldContainer[int]
    several: _containers.RepeatedCompositeFieldContainer[Several]
    unread: _containers.RepeatedScalarFieldContainer[int]
    similar: _containers.RepeatedCompositeFieldContainer[Similar]
    matching: _containers.RepeatedScalarFieldContainer[str]
    failing_rules: FailingRules
    problems: Problems
    causes: Causes
    never_had: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node_name: _Optional[str] = ..., agent_version: _Optional[str] = ..., generation: _Optional[int] = ..., full: _Optional[bool] = ..., indices: _Optional[_Iterable[int]] = ..., values: _Optional[_Iterable[float]] = ..., absent: _Optional[_Iterable[int]] = ..., several: _Optional[_Iterable[_Union[Several, _Mapping]]] = ..., unread: _Optional[_Iterable[int]] = ..., similar: _Optional[_Iterable[_Union[Similar, _Mapping]]] = ..., matching: _Optional[_Iterable[str]] = ..., failing_rules: _Optional[_Union[FailingRules, _Mapping]] = ..., problems: _Optional[_Union[Problems, _Mapping]] = ..., causes: _Optional[_Union[Causes, _Mapping]] = ..., never_had: _Optional[_Iterable[int]] = ...) -> None: ...

class Causes(_message.Message):
    __slots__ = ("causes",)
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    causes: _containers.RepeatedCompositeFieldContainer[Cause]
    def __init__(self, causes: _Optional[_Iterable[_Union[Cause, _Mapping]]] = ...) -> None: ...

class Cause(_message.Message):
    __slots__ = ("index", "text")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    index: int
    text: str
    def __init__(self, index: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class Problems(_message.Message):
    __slots__ = ("conditions", "events")
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[ProblemCondition]
    events: _containers.RepeatedCompositeFieldContainer[ProblemEvent]
    def __init__(self, conditions: _Optional[_Iterable[_Union[ProblemCondition, _Mapping]]] = ..., events: _Optional[_Iterable[_Union[ProblemEvent, _Mapping]]] = ...) -> None: ...

class ProblemCondition(_message.Message):
    __slots__ = ("type", "active", "reason", "message", "since")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    type: str
    active: bool
    reason: str
    message: str
    since: float
    def __init__(self, type: _Optional[str] = ..., active: _Optional[bool] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., since: _Optional[float] = ...) -> None: ...

class ProblemEvent(_message.Message):
    __slots__ = ("source", "reason", "message", "times")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    source: str
    reason: str
    message: str
    times: int
    def __init__(self, source: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., times: _Optional[int] = ...) -> None: ...

class Several(_message.Message):
    __slots__ = ("index", "samples")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    index: int
    samples: int
    def __init__(self, index: _Optional[int] = ..., samples: _Optional[int] = ...) -> None: ...

class Similar(_message.Message):
    __slots__ = ("index", "names")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    index: int
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, index: _Optional[int] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class FailingRules(_message.Message):
    __slots__ = ("rules", "more")
    RULES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[FailingRule]
    more: int
    def __init__(self, rules: _Optional[_Iterable[_Union[FailingRule, _Mapping]]] = ..., more: _Optional[int] = ...) -> None: ...

class FailingRule(_message.Message):
    __slots__ = ("file", "group", "rule", "reason", "text", "seconds")
    FILE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    file: str
    group: str
    rule: str
    reason: str
    text: str
    seconds: int
    def __init__(self, file: _Optional[str] = ..., group: _Optional[str] = ..., rule: _Optional[str] = ..., reason: _Optional[str] = ..., text: _Optional[str] = ..., seconds: _Optional[int] = ...) -> None: ...
