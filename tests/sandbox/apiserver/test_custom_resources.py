"""CRDs and their resources: served, validated, pruned, defaulted, and deleted with the CRD."""

import pytest

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
RULES = {
    "type": "object",
    "required": ["operator"],
    "properties": {
        "operator": {"type": "string", "enum": ["Equals", "LessThan", "GreaterThan"]},
        "target": {"type": "integer", "format": "int64", "minimum": 0, "maximum": 100},
        "word": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "period": {"type": "string", "default": "5s"},
        "labels": {"type": "array", "maxItems": 2, "minItems": 1, "items": {"type": "string"}},
        "ratio": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "amount": {"x-kubernetes-int-or-string": True},
        "note": {"type": "string", "nullable": True},
        "free": ANY,
        "weights": {"type": "object", "additionalProperties": {"type": "integer"}},
        "at": {"type": "string", "format": "date-time"},
        "on": {"type": "boolean"},
        "unsure": {"x-kubernetes-preserve-unknown-fields": True, "not": {"enum": [True, False]}},
    },
}


def widget(name="w", **spec):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"operator": "Equals", **spec},
    }


@pytest.fixture
async def served(api, crd):
    reply = await api.post(CRDS, crd(RULES))
    assert reply.code == 201, reply.body
    return reply


async def test_crd_is_established_at_once(api, served):
    found = {item["type"]: item["status"] for item in served.body["status"]["conditions"]}
    assert found == {"NamesAccepted": "True", "Established": "True"}
    assert served.body["status"]["storedVersions"] == ["v1"]
    listed = await api.get(WIDGETS)
    assert (listed.code, listed.body["kind"]) == (200, "WidgetList")
    groups = (await api.get("/apis")).body["groups"]
    assert "example.com" in [group["name"] for group in groups]


async def test_objects_are_deleted_with_their_crd(api, served):
    created = await api.post(WIDGETS, widget())
    async with api.watch(WIDGETS, resourceVersion=created.version) as watch:
        assert (await api.delete(f"{CRDS}/widgets.example.com")).code == 200
        assert await watch.next() is None
    assert (await api.get(WIDGETS)).code == 404
    assert (await api.get("/apis/example.com/v1")).code == 404


async def test_recreated_crd_starts_empty(api, served, crd):
    await api.post(WIDGETS, widget())
    await api.delete(f"{CRDS}/widgets.example.com")
    await api.post(CRDS, crd(RULES))
    assert (await api.get(WIDGETS)).body["items"] == []


@pytest.mark.parametrize(
    ("spec", "field", "why"),
    [
        ({"operator": "Like"}, "spec.operator", 'supported values: "Equals"'),
        ({"operator": None}, "spec.operator", "must be of type string"),
        ({"target": "1"}, "spec.target", "must be of type integer"),
        ({"target": 1.5}, "spec.target", "must be of type integer"),
        ({"target": -1}, "spec.target", "greater than or equal to 0"),
        ({"target": 101}, "spec.target", "less than or equal to 100"),
        ({"target": 2**63}, "spec.target", "must be of type int64"),
        ({"word": "ABC"}, "spec.word", "should match '^[a-z]+$'"),
        ({"word": "a"}, "spec.word", "at least 2 chars"),
        ({"word": "abcdef"}, "spec.word", "Too long"),
        ({"labels": []}, "spec.labels", "at least 1 items"),
        ({"labels": ["a", "b", "c"]}, "spec.labels", "Too many: 3"),
        ({"labels": ["a", 5]}, "spec.labels[1]", "must be of type string"),
        ({"ratio": 0}, "spec.ratio", "greater than 0"),
        ({"amount": 1.5}, "spec.amount", "integer,string"),
        ({"weights": {"a": "x"}}, "spec.weights.a", "must be of type integer"),
        ({"at": "yesterday"}, "spec.at", "date-time"),
        ({"on": "yes"}, "spec.on", "must be of type boolean"),
        ({"unsure": True}, "spec.unsure", "must not validate the schema"),
    ],
)
async def test_object_that_violates_the_schema_is_invalid(api, served, spec, field, why):
    reply = await api.post(WIDGETS, widget(**spec))
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert field in [cause["field"] for cause in reply.causes]
    assert why in reply.body["message"]
    assert reply.body["message"].startswith('Widget.example.com "w" is invalid')


async def test_missing_required_field_is_invalid(api, served):
    reply = await api.post(WIDGETS, {"metadata": {"name": "w"}, "spec": {}})
    assert reply.causes == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.operator"}
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"target": 2**53 + 1 - 2**53},
        {"target": 5.0},
        {"amount": 5},
        {"amount": "50%"},
        {"note": None},
        {"ratio": 0.5},
        {"unsure": 1},
        {"unsure": 0.0},
        {"unsure": "true"},
        {"at": "2026-01-01T00:00:00Z"},
    ],
)
async def test_valid_object_is_accepted(api, served, spec):
    assert (await api.post(WIDGETS, widget(**spec))).code == 201


async def test_defaults_are_set(api, served):
    assert (await api.post(WIDGETS, widget())).body["spec"]["period"] == "5s"
    replaced = await api.patch(f"{WIDGETS}/w", {"spec": {"period": None}})
    assert replaced.body["spec"]["period"] == "5s"


async def test_unknown_fields_are_pruned_with_a_warning(api, served):
    reply = await api.post(WIDGETS, widget(color="red", free={"any": {"thing": 1}}))
    assert reply.code == 201
    assert "color" not in reply.body["spec"]
    assert reply.body["spec"]["free"] == {"any": {"thing": 1}}
    assert reply.headers["Warning"] == '299 - "unknown field \\"spec.color\\""'


async def test_strict_validation_rejects_unknown_fields(api, served):
    reply = await api.post(WIDGETS, widget(color="red"), fieldValidation="Strict")
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert 'unknown field "spec.color"' in reply.body["message"]
    ignored = await api.post(WIDGETS, widget(color="red"), fieldValidation="Ignore")
    assert (ignored.code, "Warning" in ignored.headers) == (201, False)
    assert (await api.post(WIDGETS, widget(), fieldValidation="Perhaps")).code == 400


async def test_spec_and_status_are_written_separately(api, served):
    made_up = {**widget(), "status": {"ready": True}}
    created = await api.post(WIDGETS, made_up)
    assert "status" not in created.body
    path = f"{WIDGETS}/w"
    both = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"target": 5},
        "status": {"ready": True},
    }
    status = await api.patch(f"{path}/status", both)
    assert status.body["status"] == {"ready": True}
    assert "target" not in status.body["spec"]
    assert "labels" not in status.body["metadata"]
    assert status.body["metadata"]["generation"] == 1
    both["status"] = {"ready": False}
    main = await api.patch(path, both)
    assert main.body["status"] == {"ready": True}
    assert main.body["spec"]["target"] == 5
    assert main.body["metadata"]["generation"] == 2
    put = await api.put(f"{path}/status", {**main.body, "status": {"ready": 1}})
    assert put.body["status"] == {"ready": 1}


async def test_status_is_an_ordinary_field_without_the_subresource(api, crd):
    await api.post(CRDS, crd(RULES, status=False))
    created = await api.post(WIDGETS, {**widget(), "status": {"ready": True}})
    assert created.body["status"] == {"ready": True}
    assert (await api.get(f"{WIDGETS}/w/status")).code == 404
    changed = await api.patch(f"{WIDGETS}/w", {"status": {"ready": False}})
    assert changed.body["metadata"]["generation"] == 2


async def test_strategic_patch_is_rejected_for_custom_resources(api, served):
    await api.post(WIDGETS, widget())
    kind = "application/strategic-merge-patch+json"
    reply = await api.patch(f"{WIDGETS}/w", {"spec": {}}, kind)
    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")


async def test_apply_merges_lists_of_custom_resources_by_their_schema(api, crd):
    item = {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}}
    keyed = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    plain = {"type": "array", "items": {"type": "string"}}
    tags = {**plain, "x-kubernetes-list-type": "set"}
    schema = {"type": "object", "properties": {"keyed": keyed, "plain": plain, "tags": tags}}
    await api.post(CRDS, crd(schema))

    def config(**spec):
        return {**widget(), "spec": spec}

    path = f"{WIDGETS}/w"
    first = config(keyed=[{"name": "a", "v": 1}], plain=["x"], tags=["one"])
    assert (await api.apply(path, first, manager="one")).code == 201
    clash = await api.apply(path, config(plain=["y"]), manager="two")
    assert (clash.code, clash.causes[0]["field"]) == (409, ".spec.plain")
    reply = await api.apply(
        path, config(keyed=[{"name": "b", "v": 2}], tags=["two"]), manager="two"
    )
    spec = reply.body["spec"]
    assert spec["keyed"] == [{"name": "a", "v": 1}, {"name": "b", "v": 2}]
    assert (spec["plain"], spec["tags"]) == (["x"], ["one", "two"])
    gone = await api.apply(path, config(), manager="two")
    assert gone.body["spec"]["keyed"] == [{"name": "a", "v": 1}]
    assert gone.body["spec"]["tags"] == ["one"]


async def test_status_can_be_applied_by_its_own_manager(api, served):
    await api.post(WIDGETS, widget())
    config = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "status": {"ready": True},
    }
    reply = await api.apply(f"{WIDGETS}/w/status", config)
    assert reply.body["status"] == {"ready": True}
    entry = next(
        e for e in reply.body["metadata"]["managedFields"] if e.get("subresource") == "status"
    )
    assert (entry["operation"], entry["fieldsV1"]["f:status"]["f:ready"]) == ("Apply", {})


async def test_changed_schema_applies_from_then_on(api, served, crd):
    changed = crd({"type": "object", "properties": {"operator": {"type": "string"}}})
    current = (await api.get(f"{CRDS}/widgets.example.com")).body
    assert (await api.put(f"{CRDS}/widgets.example.com", {**current, "spec": changed["spec"]})).code
    assert (await api.post(WIDGETS, widget(operator="Like"))).code == 201


async def test_versions_of_one_kind_share_their_objects(api, crd):
    body = crd(RULES)
    old = {**body["spec"]["versions"][0], "name": "v1alpha1", "storage": False}
    body["spec"]["versions"].append(old)
    await api.post(CRDS, body)
    await api.post(WIDGETS, widget())
    found = (await api.get(WIDGETS.replace("/v1/", "/v1alpha1/"))).body["items"]
    assert [(item["apiVersion"], item["metadata"]["name"]) for item in found] == [
        ("example.com/v1alpha1", "w")
    ]
    made = {**widget("x"), "apiVersion": "example.com/v1alpha1"}
    await api.post(WIDGETS.replace("/v1/", "/v1alpha1/"), made)
    assert (await api.get(f"{WIDGETS}/x")).body["apiVersion"] == "example.com/v1"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"group": None}, "spec.group"),
        ({"group": "other.com"}, "metadata.name"),
        ({"names": {"kind": "Widget", "plural": "gadgets"}}, "metadata.name"),
        ({"scope": None}, "spec.scope"),
        ({"versions": []}, "spec.versions"),
    ],
)
async def test_crd_itself_is_validated(api, crd, change, field):
    body = crd(RULES)
    body["spec"] |= change
    reply = await api.post(CRDS, body)
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert field in [cause["field"] for cause in reply.causes]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "text"}, "Unsupported value"),
        ({}, "must not be empty"),
        ({"type": "array"}, "must be specified"),
        ({"type": "string", "pattern": "("}, "valid regular expression"),
    ],
)
async def test_schema_itself_is_validated(api, crd, schema, why):
    reply = await api.post(CRDS, crd({"type": "object", "properties": {"x": schema}}))
    assert reply.code == 422
    assert why in reply.body["message"]


async def test_cluster_scoped_kind_is_served(api, crd):
    body = crd(RULES)
    body["spec"]["scope"] = "Cluster"
    await api.post(CRDS, body)
    assert (await api.post("/apis/example.com/v1/widgets", widget())).code == 201
    assert (await api.get("/apis/example.com/v1/widgets/w")).code == 200
    assert (await api.get(WIDGETS)).code == 404
